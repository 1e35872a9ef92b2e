"""TARGET: each loss by hand, what is synthesised, what clients do with it, and what it costs."""

from itertools import islice
from types import SimpleNamespace

import pytest
import torch
from conftest import command, course
from making import INPUTS, LABELS, SHORT, accuracy_on_the_first_task, learned, make, room_for_both, sgd, with_head
from torch import nn
from torch.distributions import Categorical, kl_divergence
from torch.nn.functional import cross_entropy

from fcl_bench import Backbone, ConfigError, Network, Samples, Task, snapshot
from fcl_bench.backbone import InputSpec
from fcl_bench.methods.finetune import Finetune
from fcl_bench.methods.target import (
    RELEASED,
    TARGET,
    BatchNormStatistics,
    ClassStatistics,
    Global,
    Lesson,
    Rehearsal,
    Student,
    Synthesis,
    divergence,
    known_moments,
    moments_of,
    one_pass,
)
from fcl_bench.partition import Dirichlet, IidClients
from fcl_bench.temporal import Disjoint
from fcl_bench.traffic import size

BRIEF = {
    **{"synthetic": 100, "synthesis_rounds": 3, "synthesis_batch": 32, "generator_steps": 2},
    **{"warm_up": 1, "student_steps": 2},
}
IMAGES = InputSpec((3, 8, 8), torch.uint8, 0, 255)


def short(backbone=None, kind=TARGET, **settings):
    return make(kind, backbone or Backbone(5), **BRIEF | settings)


def little_network(norm=nn.BatchNorm2d):
    torch.manual_seed(0)
    scale = SimpleModule(lambda images: images.float() / 255)
    return nn.Sequential(scale, nn.Conv2d(3, 4, 3), norm(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class SimpleModule(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, inputs):
        return self.function(inputs)


def on_images(build=little_network, **settings):
    return short(Backbone(4, True, build, IMAGES), **settings)


def synthesis(generator, settings, teacher=None, student=None, statistics=None):
    """Of two features; without a weight for the statistics, unless there are some."""
    given = {"one_hot": 0.0, "statistics": 1.0, "adversarial": 0.0, "agreement": "agree", "synthesis_batch": 4}
    given |= {"lr_generator": 0.01, "lr_latent": 0.1, "generator_steps": 3}
    nothing = ClassStatistics(torch.zeros(3, 2), torch.ones(3, 2), torch.ones(2))
    teacher, student = teacher or nn.Linear(2, 3), student or nn.Linear(2, 3)
    return Synthesis(generator, statistics or nothing, teacher, student, given | settings)


def test_divergence_is_that_of_torch():
    taught, logits = torch.randn(2, 5, 4)
    for temperature in (1.0, 20.0):
        first, second = Categorical(logits=taught / temperature), Categorical(logits=logits / temperature)
        torch.testing.assert_close(divergence(taught, logits, temperature), kl_divergence(first, second))


def test_the_student_learns_the_divergence_times_the_square_of_the_temperature():
    student = Student(nn.Linear(2, 3), {"lr_student": 0.1, "student_temperature": 20.0})
    samples, taught = torch.randn(4, 2), torch.randn(4, 3)
    pair = (Categorical(logits=each / 20) for each in (taught, student.network(samples)))
    expected = 400 * kl_divergence(*pair).mean()
    torch.testing.assert_close(student.training_step((samples, taught), 0), expected, rtol=1e-3, atol=1e-6)


def test_class_statistics_by_hand():
    centre, spread = torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [2.0]])
    statistics = ClassStatistics(centre, spread, torch.tensor([2.0]))
    labels = torch.tensor([0, 1, 0, 1])
    matching = torch.tensor([[-1.0], [8.0], [1.0], [12.0]])
    assert statistics(matching, labels).item() == pytest.approx(0)
    # class 0: mean 2, variance 1; class 1: mean 10, variance 16; in units of 2 the gaps are 1 and 0, 0 and 3
    other = torch.tensor([[1.0], [6.0], [3.0], [14.0]])
    assert statistics(other, labels).item() == pytest.approx((1 + 0) / 2 + (0 + 9) / 2)


def test_batch_norm_statistics_are_zero_for_the_data_that_the_layer_remembers():
    layer = nn.BatchNorm2d(2, momentum=1.0)
    images = torch.randn(6, 2, 3, 3)
    layer(images)
    layer.running_var *= 53 / 54  # it remembers the unbiased one
    layer.eval()
    statistics = BatchNormStatistics(layer)
    layer(images)
    assert statistics(images, None).item() == pytest.approx(0, abs=1e-6)
    layer.running_mean += torch.tensor([3.0, 4.0])
    layer.running_var += torch.tensor([0.0, 2.0])
    layer(images)
    assert statistics(images, None).item() == pytest.approx(5 + 2, rel=1e-5)


def test_batch_norm_statistics_are_smoothed_over_rounds_and_summed_over_layers():
    layers = nn.Sequential(nn.BatchNorm1d(1), nn.BatchNorm1d(1)).eval()  # both remember mean 0 and variance 1
    statistics = BatchNormStatistics(layers)
    first, second = torch.tensor([[9.0], [11.0]]), torch.tensor([[20.0], [20.0]])
    layers(first)
    one = statistics(first, None)
    assert one.item() == pytest.approx(2 * 10, rel=1e-4)  # the variance is that of the memory
    statistics.end_round()
    layers(second)
    mean, variance = 0.9 * 10 + 0.1 * 20, 0.9
    assert statistics(second, None).item() == pytest.approx(2 * (mean + 1 - variance), rel=1e-4)
    statistics.end_round()
    assert statistics.earlier[0].flatten().tolist() == pytest.approx([variance, mean])


@pytest.mark.parametrize("agreement", ["agree", "disagree"])
def test_the_loss_of_the_generator_by_hand(agreement):
    teacher, student = nn.Linear(2, 3), nn.Linear(2, 3)
    torch.manual_seed(1)
    samples, labels = torch.randn(16, 2), torch.randint(3, (16,))
    weights = {"one_hot": 0.5, "adversarial": 2.0, "statistics": 10.0, "agreement": agreement}
    whole = synthesis(Scaled(), weights, teacher, student)
    whole.begin_round(adversarial=False)
    taught, logits = teacher(samples).detach(), student(samples).detach()
    plain = 0.5 * cross_entropy(taught, labels) + 10 * whole.statistics(samples, labels)
    torch.testing.assert_close(whole.loss(samples, labels), plain)
    total, counted = 0.0, 0
    for one, other in zip(taught, logits, strict=True):
        if (one.argmax() == other.argmax()) == (agreement == "agree"):
            total += float(kl_divergence(Categorical(logits=one), Categorical(logits=other)))
            counted += 1
    assert 0 < counted < 16
    whole.begin_round(adversarial=True)
    assert whole.loss(samples, labels).item() == pytest.approx(plain.item() - 2 * total / 16, rel=1e-5)


class Scaled(nn.Module):
    """Latents times two weights."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0]))

    def forward(self, latent, labels):
        return latent[:, :2] * self.weight


def test_a_round_moves_copy_and_latents_keeps_the_best_batch_and_then_moves_the_generator():
    generator, teacher, labels = Scaled(), nn.Linear(2, 3), torch.tensor([0, 1, 2, 2])
    whole = synthesis(generator, {"one_hot": 1.0, "statistics": 0.0}, teacher)
    whole.begin_round(adversarial=False)
    latent = whole.latent.detach().clone().requires_grad_()
    weight = generator.weight.detach().clone().requires_grad_()
    optimizer = torch.optim.Adam(
        [{"params": [weight], "lr": 0.01}, {"params": [latent], "lr": 0.1}],
        betas=(0.5, 0.999),
    )
    total, batches, losses = torch.zeros(2), [], []
    for _ in range(3):
        batches.append((latent[:, :2] * weight).detach())
        loss = cross_entropy(teacher(latent[:, :2] * weight), labels)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        total = total + weight.grad
        optimizer.step()
    SHORT["fit"].over(whole, [(labels,)] * 3)
    torch.testing.assert_close(whole.copy.weight, weight)
    torch.testing.assert_close(generator.weight.grad, total)
    assert generator.weight.tolist() == [1.0, -2.0]
    best = whole.end_round()
    torch.testing.assert_close(best, batches[losses.index(min(losses))])
    moved = torch.tensor([1.0, -2.0]) - 0.03 * total.sign()  # the first step of Adam is one of the whole rate
    torch.testing.assert_close(generator.weight.detach(), moved, rtol=1e-4, atol=1e-5)
    whole.begin_round(adversarial=False)
    assert torch.equal(whole.copy.weight, generator.weight)


def test_the_local_loss_by_hand():
    student = with_head(Network(Backbone(2)), 3, seed=3)
    teacher = with_head(Network(Backbone(2)), 3, seed=1)
    loss = Rehearsal(student, sgd, weight=25.0, temperature=2.0)
    loss.assign(columns=torch.tensor([0, 2]))
    inputs, labels, made = torch.randn(4, 2), torch.tensor([0, 2, 2, 0]), torch.randn(5, 2)
    real = cross_entropy(student(inputs)[:, [0, 2]], torch.tensor([0, 1, 1, 0]))
    torch.testing.assert_close(loss.training_step((inputs, labels), 0), real)
    loss.load_teacher(snapshot(teacher))
    loss.assign(distil_columns=torch.tensor([0, 1]))
    p, q = (teacher(made)[:, :2] / 2).softmax(dim=1), (student(made)[:, :2] / 2).log_softmax(dim=1)
    expected = real - 25 * (p * q).sum() / 5
    torch.testing.assert_close(loss.training_step((inputs, labels, made), 0), expected)


def test_moments_are_those_of_all_samples_so_far():
    done = learned(short())
    numbers = torch.from_numpy(done.stream.number[LABELS])
    found = done.states[-1].moments
    assert found.classes.tolist() == list(range(6))
    for label in range(6):
        rows = INPUTS[numbers == label].double()
        assert found.counts[label] == len(rows)
        torch.testing.assert_close(found.totals[label], rows.sum(dim=0))
        torch.testing.assert_close(found.squares[label], (rows**2).sum(dim=0))


def test_classes_without_moments_of_their_own_have_those_of_all():
    features = torch.tensor([[1.0], [3.0], [8.0]])
    moments = moments_of(features, torch.tensor([2, 2, 0]))
    centre, spread, overall = known_moments(moments, 4)
    everything = features.std(correction=0).item()
    assert centre.flatten().tolist() == pytest.approx([8, 4, 2, 4])
    assert spread.flatten().tolist() == pytest.approx([everything, everything, 1, everything])
    assert overall.tolist() == pytest.approx([everything])
    nobody = moments_of(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    centre, spread, overall = known_moments(nobody, 1)
    assert (centre.tolist(), spread.tolist(), overall.tolist()) == ([[0, 0]], [[1, 1]], [1, 1])


@pytest.mark.parametrize("classes", [1, 3, 7, 100])
@pytest.mark.parametrize("method", [short, on_images], ids=["features", "images"])
def test_every_class_is_dealt_and_there_are_enough_samples(method, classes):
    labels = method(synthetic=1000).deal(classes)
    assert labels.shape[0] >= 32
    assert labels.shape[1] == 32
    counts = labels.flatten().bincount(minlength=classes)
    assert len(counts) == classes
    assert counts.min() > 0
    assert len(method(synthetic=10, synthesis_rounds=9).deal(classes)) >= 9


@pytest.fixture(scope="module")
def done():
    return learned(short(rounds=1))


def test_synthetic_features_have_the_moments_of_their_classes(done):
    made = short(synthetic=1500, synthesis_batch=256, generator_steps=10).synthesise(done.states[-1])
    assert len(made) >= 1500
    numbers = torch.from_numpy(done.stream.number[LABELS])
    for label in range(6):
        real, fake = INPUTS[numbers == label], made.inputs[made.labels == label]
        assert len(fake) > 200
        torch.testing.assert_close(fake.mean(dim=0), real.mean(dim=0), rtol=0, atol=0.5)
        torch.testing.assert_close(fake.std(dim=0), real.std(dim=0), rtol=0.5, atol=0)


def test_synthetic_images_are_bytes_that_the_teacher_takes_for_what_they_shall_be():
    method = on_images(synthetic=1, synthesis_rounds=2, generator_steps=15, statistics=0.0, lr_generator=0.01)
    torch.manual_seed(0)
    state = Global(snapshot(with_head(Network(method.backbone), 3, seed=2)), method.init().moments)
    state.weights["head.weight"] *= 20
    made = method.synthesise(state)
    assert made.inputs.dtype == torch.uint8
    assert made.inputs.shape == (2 * 32, 3, 8, 8)
    assert set(made.labels.tolist()) == {0, 1, 2}
    assert method.recognised(state, made) > 0.5


def batches(method, samples, synthetic):
    data = Samples(torch.arange(float(samples))[:, None], torch.zeros(samples, dtype=torch.int64))
    lesson = Lesson({}, synthetic)
    return list(method.batches(SimpleNamespace(data=data), lesson))


def test_synthetic_batches_cycle_so_that_every_real_batch_has_one():
    method = short(synthetic_batch=4, batch_size=10, epochs=3)
    found = batches(method, 50, torch.arange(12.0)[:, None])
    assert len(found) == 15
    real = torch.cat([inputs for inputs, _, _ in found])
    assert real.flatten().sort().values.tolist() == sorted(3 * list(range(50)))
    for start in range(0, 15, 3):
        one_turn = torch.cat([made for _, _, made in found[start : start + 3]])
        assert sorted(one_turn.flatten().tolist()) == list(range(12))


def test_a_released_epoch_ends_with_the_shorter_batches():
    method = short(variant="target_repo", synthetic_batch=500, batch_size=10, epochs=3)
    for samples, steps in ((200, 6), (40, 4)):  # 2560 samples are six batches
        found = batches(method, samples, torch.zeros(2560, 1))
        assert len(found) == 3 * steps
        for epoch in range(3):
            seen = torch.cat([inputs for inputs, *_ in islice(found, epoch * steps, (epoch + 1) * steps)])
            assert len(seen.unique()) == len(seen)


def test_without_samples_to_imitate_the_teacher_on_there_are_real_samples_only():
    assert {len(batch) for batch in batches(short(), 50, torch.zeros(0, 1))} == {2}


def test_the_teacher_weighs_25_for_images_and_1_for_features():
    weights = [method(distillation=None).averaging.loss.weight for method in (on_images, short)]
    assert weights == [25.0, 1.0]
    assert short(distillation=7.0).averaging.loss.weight == 7.0


def test_which_samples_the_teacher_is_imitated_on():
    task = Task(index=1, registrations=(), known=(1,), new=(3, 4), seen=5)
    made = Samples(torch.arange(6.0), torch.tensor([0, 1, 2, 2, 1, 0]))
    assert short(distil="absent").rehearsed(made, task).tolist() == [0, 2, 3, 5]
    assert short(distil="known").rehearsed(made, task).tolist() == [0, 1, 2, 3, 4, 5]


def test_one_pass_has_every_row_once():
    batches = list(one_pass(torch.arange(10.0)[:, None], 3))
    assert sorted(torch.cat(batches).flatten().tolist()) == list(range(10))
    assert [len(batch) for batch in batches] == [3, 3, 2, 2]


def test_released_constants_leave_the_student_alone(done):
    method = short(variant="target_repo")
    assert {name: method.settings[name] for name in RELEASED} == RELEASED
    whole = method.synthesis(done.states[-1])
    before = whole.student[1].weight.clone()
    method.synthesis = lambda state: whole
    made = method.synthesise(done.states[-1])
    assert len(made) == 2560
    assert set(made.labels.tolist()) == set(range(6))
    assert torch.equal(whole.student[1].weight, before)
    assert not whole.adversarial


def test_after_the_warm_up_the_student_learns(done):
    method = short()
    whole = method.synthesis(done.states[-1])
    before = whole.student[1].weight.clone()
    method.synthesis = lambda state: whole
    method.synthesise(done.states[-1])
    assert not torch.equal(whole.student[1].weight, before)
    assert whole.adversarial


def test_exchanges_and_their_bytes(done):
    names = [(exchange.task, exchange.function) for exchange in done.exchanges]
    later = [(task, name) for task in (1, 2) for name in ("keep", "train", "report")]
    assert names == [(0, "train"), (0, "report"), *later]
    known = done.stream.tasks[0].seen
    keep = done.exchanges[2]
    head = known * (5 + 1) * 4
    made = 4 * 32 * 5 * 4  # 128 samples of 5 features, the first multiple of a batch above 100
    assert keep.downlink_bytes == 3 * (head + made)
    assert keep.uplink_bytes == 0
    assert 0 <= keep.notes["recognised"] <= 1
    for exchange in (each for each in done.exchanges if each.function == "report"):
        rows = 0
        for client in range(3):
            rows += len(set(LABELS[done.stream.indices(exchange.task, client)]))
        assert exchange.uplink_bytes == rows * (8 + 8 + 2 * 5 * 8)
        assert exchange.downlink_bytes == 0


def test_images_go_down_as_bytes_and_no_moments_are_reported():
    method = on_images(rounds=1, epochs=1)
    images = torch.randint(0, 256, (120, 3, 8, 8), dtype=torch.uint8)
    done = course(method, images, LABELS, Disjoint(2), IidClients(2))
    assert [exchange.function for exchange in done.exchanges] == ["train", "keep", "train"]
    assert done.exchanges[1].downlink_bytes == 2 * (size(done.states[0].weights) + 128 * 3 * 8 * 8)
    memory = done.memories[-1][0]
    assert memory["synthetic"].dtype == torch.uint8
    assert memory["synthetic"].shape == (128, 3, 8, 8)


def test_the_first_task_is_that_of_finetune():
    plain = learned(make(Finetune), temporal=Disjoint(1)).states[-1]
    torch.testing.assert_close(learned(short(), temporal=Disjoint(1)).states[-1].weights, plain)


def test_it_forgets_less_than_finetune():
    inputs = room_for_both()
    right = {}
    for kind in (Finetune, TARGET):
        method = short(Backbone(20), kind, ce_scope="seen", rounds=10, epochs=3)
        done = course(method, inputs, LABELS, Disjoint(2), IidClients(2))
        right[kind] = accuracy_on_the_first_task(method, inputs, done)
    assert right[TARGET] > right[Finetune] + 0.05, right


def test_the_released_variant_counts_clients_equally():
    """One round from one start: each client's own model is written down by the client."""
    models = []

    class Listening(TARGET):
        def train(self, client, received):
            update = super().train(client, received)
            models.append(update.weights["head.weight"].double())
            return update

    unequal = Dirichlet(3, alpha=0.3, balance="capped")
    done = learned(short(kind=Listening, rounds=1), unequal, Disjoint(1))
    sizes = torch.from_numpy(done.stream.sizes[0]).double()
    for variant, shares in (("corrected", sizes / sizes.sum()), ("target_repo", torch.full((3,), 1 / 3))):
        found = learned(short(variant=variant, rounds=1), unequal, Disjoint(1)).states[-1]
        expected = (torch.stack(models) * shares.view(3, 1, 1)).sum(dim=0).float()
        torch.testing.assert_close(found.weights["head.weight"], expected)


def test_a_network_without_batch_norm_is_refused():
    sentence = "but this backbone has no BatchNorm: set backbone.norm=bn"
    with pytest.raises(ConfigError, match=sentence):
        on_images(lambda: little_network(norm=lambda channels: nn.GroupNorm(2, channels)))
    on_images(nn.Identity)  # stands for any network, before one is read


def test_group_norm_is_refused_before_anything_is_trained(output_dir, cache_dir):
    words = ("backbone=resnet18_small", "backbone.norm=gn", "limit_train=20", "limit_test=10")
    refused = command("method=target", *words, f"output_dir={output_dir}", f"cache_dir={cache_dir}")
    assert refused.code == 2
    assert "this backbone has no BatchNorm" in refused.err
    assert not list(output_dir.rglob("result.json"))
