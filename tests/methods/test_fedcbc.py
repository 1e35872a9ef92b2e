"""FedCBC against VAEs that are trained one after another, distributions of torch, and sums by hand."""

from functools import partial
from types import SimpleNamespace

import making
import numpy as np
import pytest
import torch
from conftest import Command, command, course
from making import FEATURES, INPUTS, LABELS, learned
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import cross_entropy

from fcl_bench.federation import Participation
from fcl_bench.methods.fedcbc import FedCBC, Knowledge, Lesson, Round, divergence, vae_loss
from fcl_bench.partition import IidClients
from fcl_bench.temporal import Disjoint, IidTasks

HIDDEN = 8
CODE = 3
PARAMETERS = FEATURES * HIDDEN + HIDDEN + HIDDEN * 2 * CODE + 2 * CODE + CODE * HIDDEN + HIDDEN + HIDDEN * FEATURES
PARAMETERS += FEATURES
adam = partial(torch.optim.Adam, weight_decay=0.001)
SMALL = {
    **{"hidden": HIDDEN, "code": CODE, "lr": 0.01, "optimizer": adam},
    **{"pseudo_samples": 7, "least": 2, "batch_size": 4},
}


def make(**settings):
    return making.make(FedCBC, **SMALL | settings)


class PlainVAE(nn.Module):
    """As the paper draws it, for a single class."""

    def __init__(self, weights, place):
        super().__init__()
        self.encoder = self.linear(weights, "encoder", place)
        self.code = self.linear(weights, "code", place)
        self.decoder = self.linear(weights, "decoder", place)
        self.output = self.linear(weights, "output", place)

    def linear(self, weights, name, place):
        weight, bias = weights[f"{name}.weight"][place], weights[f"{name}.bias"][place, 0]
        layer = nn.Linear(*weight.shape)
        layer.load_state_dict({"weight": weight.T, "bias": bias})
        return layer

    def encode(self, rows):
        codes = self.code(self.encoder(rows).tanh())
        return codes[:, :CODE], codes[:, CODE:]

    def decode(self, codes):
        return self.output(self.decoder(codes).tanh()).sigmoid()


def plain_loss(vae, rows, noise):
    mean, logvar = vae.encode(rows)
    rebuilt = vae.decode(mean + noise * (0.5 * logvar).exp())
    kld = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum()
    return ((rows - rebuilt) ** 2).sum() + 0.5 * kld, mean, logvar


def trained_alone(method, start, place, lesson, seed):
    """One class by itself, in plain PyTorch."""
    mine = lesson.labels == start.classes[place]
    rows, codes, pulls = lesson.features[mine], lesson.codes[mine], lesson.pulls[mine]
    vae = PlainVAE(start.weights, place)
    optimizer = adam(vae.parameters(), lr=method.lr)
    random = torch.Generator().manual_seed(seed)
    for _ in range(method.epochs):
        for batch in torch.randperm(len(rows), generator=random).split(method.batch_size):
            noise = torch.randn(len(batch), CODE, generator=random)
            loss, mean, logvar = plain_loss(vae, rows[batch], noise)
            teacher = Normal(codes[batch, :CODE], (0.5 * codes[batch, CODE:]).exp())
            pull = kl_divergence(Normal(mean, (0.5 * logvar).exp()), teacher).sum(dim=1)
            loss = (loss + (pulls[batch] * pull).sum()) / len(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return vae


def test_vaes_trained_at_once_are_those_trained_one_after_another():
    """Classes of very different sizes, some with a teacher."""
    method = make(epochs=5)
    random = torch.Generator().manual_seed(0)
    classes = torch.tensor([1, 4, 5, 9])
    labels = classes.repeat_interleave(torch.tensor([3, 13, 2, 8]))
    lesson = Lesson(
        labels=labels,
        features=torch.rand(len(labels), FEATURES, generator=random),
        codes=torch.randn(len(labels), 2 * CODE, generator=random),
        pulls=0.5 * torch.isin(labels, torch.tensor([4, 9])),
    )
    start = method.fresh(classes, seed=3)
    seeds = [11, 12, 13, 14]
    together = method.trained(start, lesson, seeds)
    assert torch.equal(together.classes, classes)
    for place, seed in enumerate(seeds):
        alone = trained_alone(method, start, place, lesson, seed)
        for name, value in alone.state_dict().items():
            found = together.weights[name][place]
            expected = value.T if name.endswith("weight") else value[None]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
            assert not torch.allclose(found, start.weights[name][place])


def test_the_divergence_is_that_of_distributions():
    mean, logvar, other_mean, other_logvar = torch.randn(4, 6, CODE, dtype=torch.float64)
    one, other = Normal(mean, (0.5 * logvar).exp()), Normal(other_mean, (0.5 * other_logvar).exp())
    expected = kl_divergence(one, other).sum(dim=1)
    torch.testing.assert_close(divergence(mean, logvar, other_mean, other_logvar), expected)


def test_the_loss_by_hand():
    features, rebuilt = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    mean, logvar = torch.tensor([[2.0]]), torch.tensor([[0.5]]).log()
    kld = -0.5 * (1 + np.log(0.5) - 4 - 0.5)
    assert vae_loss(features, rebuilt, mean, logvar).item() == pytest.approx(1 + 4 + 0.5 * kld)


@pytest.mark.parametrize("personalisation", ["continual", "replace"])
def test_traffic_by_hand(personalisation):
    """Two clients with both classes of every task: each VAE goes up, and down again in the second round."""
    half = LABELS < 2
    method = make(personalisation=personalisation)
    done = course(method, INPUTS[half], LABELS[half], IidTasks(2), IidClients(2))
    vaes = 2 * (8 + 4 * PARAMETERS)  # their class numbers and their parameters
    assert [exchange.uplink_bytes for exchange in done.exchanges] == 4 * [2 * (8 + vaes)]
    assert [exchange.downlink_bytes for exchange in done.exchanges] == [2 * 8, *3 * [2 * (8 + vaes)]]
    kept = {client: memory["models"] for client, memory in done.memories[-1].items() if memory}
    assert len(kept) == (2 if personalisation == "continual" else 0)
    assert all(len(models) == 2 for models in kept.values())


def test_only_vaes_of_classes_in_the_task_go_down():
    done = learned(make(rounds=1), IidClients(2), Disjoint(3))
    assert [exchange.downlink_bytes for exchange in done.exchanges] == 3 * [2 * 8]
    assert done.states[-1].models.classes.tolist() == list(range(6))


def client_with(labels, memory=None):
    """A client and its samples."""
    labels = torch.tensor(labels, dtype=torch.int64)
    inputs = torch.rand(len(labels), FEATURES)
    return SimpleNamespace(id=0, data=SimpleNamespace(labels=labels, tensors=(inputs, labels)), memory=memory or {})


@pytest.mark.parametrize(
    ("labels", "least", "trained"),
    [([], 2, []), ([2], 2, []), ([2, 0, 0, 2, 5, 2], 2, [0, 2]), ([2, 0, 0, 2, 5, 2], 3, [2])],
)
def test_a_client_needs_some_samples_of_a_class(labels, least, trained):
    method = make(least=least)
    client = client_with(labels)
    reply = method.train(client, Round(method.no_models(), seed=1))
    assert reply.models.classes.tolist() == trained
    assert all(len(value) == len(trained) for value in reply.models.weights.values())


def scores_by_hand(models, rows):
    losses = [plain_loss_of_means(PlainVAE(models.weights, place), rows) for place in range(len(models))]
    return -torch.stack(losses, dim=1)


def plain_loss_of_means(vae, rows):
    """Of each row, rebuilt from the mean of its code."""
    return torch.stack([plain_loss(vae, row[None], torch.zeros(1, CODE))[0] for row in rows])


def test_the_class_with_the_smallest_loss_of_the_mean_code_wins():
    method = make(scale=3.0)
    done = learned(method)
    state = done.states[-1]
    found = method.classifier(state)(INPUTS)
    expected = scores_by_hand(state.models, INPUTS / 3)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(found.argmax(dim=1), expected.argmax(dim=1))


def test_a_class_without_a_vae_scores_below_all_others_and_finite():
    method = make()
    models = method.fresh(torch.tensor([1, 2]), seed=0)
    scores = method.classifier(Knowledge(models, seen=4))(INPUTS)
    assert scores.isfinite().all()
    assert (scores[:, [0, 3]].amax(dim=1) < scores[:, [1, 2]].amin(dim=1)).all()
    nothing = method.classifier(Knowledge(method.no_models(), seen=4))(INPUTS)
    assert nothing.shape == (len(INPUTS), 4)
    assert nothing.isfinite().all()


def different(method, classes, seed):
    """VAEs of these classes, each with weights of its own."""
    return method.fresh(torch.tensor(classes), seed) | method.fresh(torch.tensor(classes[1:]), seed + 100)


def at(models, label):
    """The weights of one class."""
    (place,) = (models.classes == label).nonzero()
    return {name: value[place] for name, value in models.weights.items()}


def test_the_server_adopts_what_one_client_has_and_distils_the_rest():
    method = make()
    old, one, two = (different(method, classes, seed) for seed, classes in enumerate([[0, 3], [1, 2], [2, 3]]))
    fused = method.fused(old, [one, two])
    assert fused.classes.tolist() == [1, 2, 3]
    for name, value in at(fused, 1).items():
        assert torch.equal(value, at(one, 1)[name])
    for label, begun in ((2, one), (3, old)):
        for name, value in at(fused, label).items():
            moved = (value - at(begun, label)[name]).abs().max()
            assert 0 < moved < 0.5  # some steps of 0.01 away


def test_teachers_dream_all_rows_and_agree_on_their_codes():
    method = make()
    one, two = (different(method, [2, 3], seed) for seed in (1, 2))
    torch.manual_seed(5)
    lesson = method.lesson(one.classes[:0], method.no_rows(), dreaming=[one, two], teaching=[one, two])
    torch.manual_seed(5)
    noise = 2 * torch.rand(7, CODE) - 1
    assert lesson.labels.tolist() == 14 * [2] + 14 * [3]
    assert torch.equal(lesson.pulls, torch.full((28,), 0.1))
    for place in (0, 1):
        vaes = [PlainVAE(models.weights, place) for models in (one, two)]
        rows = torch.cat([vae.decode(noise) for vae in vaes])
        codes = torch.stack([torch.cat(vae.encode(rows), dim=1) for vae in vaes])
        mine = lesson.labels == 2 + place
        torch.testing.assert_close(lesson.features[mine], rows.detach())
        torch.testing.assert_close(lesson.codes[mine], codes.mean(dim=0).detach())


def test_fusion_by_average_is_the_mean_of_the_clients():
    method = make(fusion="average")
    old, one, two = (different(method, classes, seed) for seed, classes in enumerate([[1, 2], [1, 2], [2, 3]]))
    fused = method.fused(old, [one, two])
    assert fused.classes.tolist() == [1, 2, 3]
    for name, value in at(fused, 2).items():
        torch.testing.assert_close(value, (at(one, 2)[name] + at(two, 2)[name]) / 2)
        assert torch.equal(at(fused, 1)[name], at(one, 1)[name])
        assert torch.equal(at(fused, 3)[name], at(two, 3)[name])


class Listening(FedCBC):
    """Remembers what VAEs begin with and learn from, and does not train them."""

    def trained(self, start, lesson, seeds):
        self.heard = start, lesson
        return start


@pytest.mark.parametrize("personalisation", ["continual", "replace"])
def test_a_client_goes_on_where_it_or_the_server_was(personalisation):
    """Of classes 0 to 3, the client has VAEs of 1 and 3, the server of 2 and 3."""
    method = making.make(Listening, **SMALL, personalisation=personalisation)
    own, known = different(method, [1, 3], 1), different(method, [2, 3], 2)
    client = client_with([0, 0, 1, 1, 2, 2, 3, 3], {"models": own})
    method.train(client, Round(known, seed=9))
    start, lesson = method.heard
    continual = personalisation == "continual"
    fresh = at(method.fresh(torch.tensor([0]), seed=9), 0)
    expected = [fresh, at(own, 1) if continual else fresh, at(known, 2), at(own if continual else known, 3)]
    for label, weights in enumerate(expected):
        assert all(torch.equal(value, weights[name]) for name, value in at(start, label).items())
    dreamed = lesson.labels.bincount() - 2
    assert dreamed.tolist() == ([0, 7, 7, 7] if continual else [0, 0, 7, 7])
    pulled = [float(lesson.pulls[lesson.labels == label].mean()) for label in range(4)]
    assert pulled == pytest.approx([0, 0, 0.1, 0.1] if continual else [0, 0, 0, 0])


def test_pseudo_samples_are_those_of_the_global_vae_where_there_is_one():
    method = making.make(Listening, **SMALL)
    own, known = different(method, [1, 3], 1), different(method, [3], 2)
    client = client_with([1, 1, 3, 3], {"models": own})
    torch.manual_seed(7)
    method.train(client, Round(known, seed=9))
    torch.manual_seed(7)
    noise = 2 * torch.rand(7, CODE) - 1
    _, lesson = method.heard
    for label, dreaming, place in ((1, own, 0), (3, known, 0)):
        rows = lesson.features[lesson.labels == label]
        dreams = PlainVAE(dreaming.weights, place).decode(noise).detach()
        torch.testing.assert_close(rows[2:], dreams)
        torch.testing.assert_close(rows[:2], client.data.tensors[0][client.data.labels == label] / method.scale)


def test_the_order_of_answers_changes_nothing():
    one, other = (learned(make(), who=Participation(arrival=arrival)).states[-1] for arrival in ("ordered", "shuffled"))
    for name, value in one.models.weights.items():
        assert torch.equal(value, other.models.weights[name])


def test_old_classes_are_not_forgotten():
    """A linear decoder, as half of these features are negative."""
    inputs = making.room_for_both()
    method = making.make(FedCBC, making.Backbone(20), **SMALL | {"decoder": "linear", "scale": 1.0, "epochs": 20})
    done = course(method, inputs, LABELS, Disjoint(2), IidClients(2))
    assert making.accuracy_on_the_first_task(method, inputs, done) > 0.8


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        *[("scale=0", "method.scale"), ("alpha=-1", "method.alpha")],
        *[("pseudo_samples=0", "method.pseudo_samples"), ("least=1", "method.least")],
    ],
)
def test_wrong_values_are_refused(tiny: Command, setting, complaint):
    done = tiny("method=fedcbc", f"method.{setting}")
    assert done.code == 2
    assert complaint in done.err


def test_it_refuses_to_train_end_to_end():
    done = command("method=fedcbc", "dataset=digits", "backbone=resnet18_small")
    assert done.code == 2
    assert "Expected a frozen backbone for method=fedcbc" in done.err


def test_of_a_class_that_both_have_the_others_vae_is_taken():
    method = make()
    mine, other = different(method, [0, 2], 1), different(method, [1, 2], 2)
    models = mine | other
    assert models.classes.tolist() == [0, 1, 2]
    for label, source in enumerate([mine, other, other]):
        assert all(torch.equal(value, at(source, label)[name]) for name, value in at(models, label).items())
    assert models.only(torch.tensor([2, 7])).classes.tolist() == [2]


LOOKING = {"look_ahead": True, "look_ahead_epochs": 3, "scale": 3.0}
NUMBERS = FEATURES * FEATURES + FEATURES  # in an adapter
TWO = IidClients(2)


class Peeking(FedCBC):
    """Remembers how many classes are seen in each task, and of which classes it has public samples."""

    def learn(self, state, task, clients):
        self.seen = [*getattr(self, "seen", ()), (task.seen, task.public.labels.unique().tolist())]
        yield from super().learn(state, task, clients)


@pytest.mark.parametrize("look_ahead", [False, True])
def test_it_is_given_classes_to_come_only_if_it_looks_ahead(look_ahead):
    method = making.make(Peeking, **SMALL | LOOKING | {"look_ahead": look_ahead})
    done = learned(method, TWO, Disjoint(3, reserved=2))
    labels = done.stream.order.tolist()
    assert [seen for seen, _ in method.seen] == [2, 4, 6]
    for seen, public in method.seen:
        beyond = sorted(6 + label for label in labels[seen:])
        assert public == [*range(seen), *(beyond if look_ahead else ())]
    assert (done.states[-1].adapter == {}) == (not look_ahead)


def adapted_by_hand(rows, weights, decoder="sigmoid"):
    moved = rows + rows @ weights["weight"].T + weights["bias"]
    return moved if decoder == "linear" else moved.clip(0, LOOKING["scale"])


def adapter_by_hand(inputs, places):
    """In plain PyTorch, with the random numbers of the server in the first task."""
    making.server_random()
    head = nn.Linear(FEATURES, int(places.max()) + 1)
    weights = {"weight": torch.zeros(FEATURES, FEATURES), "bias": torch.zeros(FEATURES)}
    trained = [value.requires_grad_() for value in weights.values()]
    optimizer = torch.optim.Adam([*trained, *head.parameters()], lr=1e-4, weight_decay=1e-3)
    for _ in range(LOOKING["look_ahead_epochs"]):
        for batch in torch.randperm(len(inputs)).split(SMALL["batch_size"]):
            loss = cross_entropy(head(adapted_by_hand(inputs[batch], weights)), places[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return {name: value.detach() for name, value in weights.items()}


def test_the_adapter_learns_from_reserved_samples_of_all_classes():
    """Places in the head: the two classes of the first task as they are registered, then the others by their labels."""
    done = learned(make(**LOOKING), TWO, Disjoint(3, reserved=2))
    order = done.stream.order.tolist()
    places = [*order[:2], *sorted(order[2:])]
    reserved = torch.from_numpy(done.stream.reserved)
    labels = torch.tensor([places.index(label) for label in LABELS[done.stream.reserved]])
    assert labels.bincount().tolist() == 6 * [2]
    expected = adapter_by_hand(INPUTS[reserved], labels)
    seen = labels < 2
    less = adapter_by_hand(INPUTS[reserved][seen], labels[seen])
    for name, value in expected.items():
        assert value.abs().max() > 5e-4
        assert not torch.allclose(value, less[name], rtol=0, atol=1e-4)
        for state in done.states:
            torch.testing.assert_close(state.adapter[name], value, rtol=0, atol=1e-5)


def test_the_adapter_goes_down_once_and_is_counted():
    done = learned(make(**LOOKING), TWO, IidTasks(2, reserved=2))
    first, *others = done.exchanges
    assert (first.task, first.function, first.answered) == (0, "keep", 2)
    assert first.downlink_bytes == 2 * 4 * NUMBERS
    assert first.uplink_bytes == 2 * 8  # whether it was new to the client
    assert [exchange.function for exchange in others] == 4 * ["train"]
    vaes = 6 * (8 + 4 * PARAMETERS)
    assert [exchange.downlink_bytes for exchange in others] == [2 * 8, *3 * [2 * (8 + vaes)]]
    for memory in done.memories[-1].values():
        assert all(torch.equal(memory["adapter"][name], value) for name, value in done.states[-1].adapter.items())


def some_adapter():
    """Weights that move features far, and beyond both ends of the decoder's range."""
    random = torch.Generator().manual_seed(4)
    shape = {"weight": (FEATURES, FEATURES), "bias": (FEATURES,)}
    return {name: torch.randn(size, generator=random) for name, size in shape.items()}


@pytest.mark.parametrize("decoder", ["sigmoid", "linear"])
def test_classifier_and_clients_adapt_features_alike(decoder):
    """A classifier without an adapter, on features that were adapted by hand, is what the scores are held against."""
    method = making.make(Listening, **SMALL | LOOKING | {"decoder": decoder})
    weights = some_adapter()
    expected = adapted_by_hand(INPUTS, weights, decoder)
    assert not torch.equal(expected, INPUTS)
    client = client_with([1] * 9, {"adapter": weights})
    method.train(client, Round(method.no_models(), seed=1))
    _, lesson = method.heard
    rows, _ = client.data.tensors
    torch.testing.assert_close(lesson.features, adapted_by_hand(rows, weights, decoder) / 3)
    models = different(method, [0, 1, 2], seed=1)
    found = method.classifier(Knowledge(models, 3, weights))(INPUTS)
    torch.testing.assert_close(found, method.classifier(Knowledge(models, 3))(expected))
    if decoder == "sigmoid":
        torch.testing.assert_close(found, scores_by_hand(models, expected / 3).detach(), rtol=1e-4, atol=1e-5)


def test_an_untrained_adapter_changes_only_what_the_decoder_cannot_reach():
    rows = torch.tensor([[-1.0, 0.0, 1.5, 3.0, 4.0]])
    assert make(**LOOKING).untrained_adapter()(rows).tolist() == [[0.0, 0.0, 1.5, 3.0, 3.0]]
    assert torch.equal(make(**LOOKING, decoder="linear").untrained_adapter()(rows), rows)


def test_a_client_without_the_adapter_waits_for_it():
    method = make(**LOOKING)
    client = client_with([1, 1, 1])
    assert len(method.train(client, Round(method.no_models(), seed=1)).models) == 0
    assert method.keep(client, some_adapter()) is True
    assert method.keep(client, some_adapter()) is False
    assert len(method.train(client, Round(method.no_models(), seed=1)).models) == 1


def test_the_adapter_is_sent_until_every_client_has_it():
    method = make(**LOOKING, rounds=3)
    done = learned(method, IidClients(4), IidTasks(2, reserved=2), Participation(dropout=0.5))
    functions = [exchange.function for exchange in done.exchanges]
    sent = functions.count("keep")
    assert 2 <= sent < 6
    assert functions == sent * ["keep", "train"] + (6 - sent) * ["train"]
    waiting = [state.waiting for state in done.states]
    assert waiting[0] == 4 - done.exchanges[0].answered > 0
    assert [number > 0 for number in waiting] == [True] * (sent - 1) + [False] * (7 - sent)
    assert all("adapter" in memory for memory in done.memories[-1].values())


PUBLIC = ("method=fedcbc", "method.epochs=2", "method.look_ahead=true", "method.look_ahead_epochs=2")


def test_the_record_names_the_look_ahead(tiny: Command):
    words = ("stream.reserved=3", "method.scale=20")
    looking = tiny(*PUBLIC, *words)
    honest = tiny(*PUBLIC, *words, "method.look_ahead=false")
    assert (looking.code, honest.code) == (0, 0)
    assert looking.result["facts"]["sees_future_classes"] is True
    assert honest.result["facts"]["sees_future_classes"] is False
    assert looking.result["stream"]["hash"] == honest.result["stream"]["hash"]
    assert looking.result["config"]["method"]["look_ahead"] is True


def test_without_reserved_samples_it_does_not_look_ahead(tiny: Command, output_dir):
    refused = tiny(*PUBLIC)
    sentence = (
        "Expected public samples for method=fedcbc, which needs them with these settings, "
        "but the stream reserves none: set stream.reserved=20."
    )
    assert (refused.code, refused.err) == (2, f"fcl_bench: {sentence}\n")
    assert not output_dir.exists()
    assert tiny(*PUBLIC, "method.look_ahead=false").code == 0


def test_the_card_shows_whether_it_looks_ahead():
    shown = {word: command("show", "fedcbc", f"method.look_ahead={word}").out for word in ("false", "true")}
    assert "sees_future_classes    no " in shown["false"]
    assert "sees_future_classes    yes " in shown["true"]
