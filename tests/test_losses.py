"""The losses that methods share, against values worked out by hand."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fcl_bench.backbone import Backbone
from fcl_bench.head import CosineToMeans, grown
from fcl_bench.local import FabricFit
from fcl_bench.losses import CrossEntropy, Distillation, Network, distillation, outputs
from fcl_bench.message import snapshot
from fcl_bench.methods.fedicarl import Rehearsal
from fcl_bench.replay import Samples
from fcl_bench.softmax import log_frequencies


def network(classes, features=2, backbone=None):
    made = Network(backbone or Backbone(features))
    torch.manual_seed(classes)
    return made.loaded(grown(snapshot(made), classes))


def normalised():
    """A backbone with BatchNorm, on features."""
    return Backbone(2, True, lambda: nn.BatchNorm1d(2))


def test_a_loaded_network_is_a_copy_that_nothing_reaches():
    original = network(2, backbone=normalised())
    weights = grown(snapshot(original), 3)
    first = original.loaded(weights).eval()
    inputs = torch.randn(4, 2)
    before = first(inputs)
    original.loaded(grown(weights, 5))
    assert len(original.head.bias) == 2
    original.train()
    original(inputs + 9)  # moves the statistics of BatchNorm
    with torch.no_grad():
        original.head.weight += 1
        weights["head.weight"] += 1
    assert torch.equal(first(inputs), before)


def test_distillation_is_soft_cross_entropy_without_the_factor_of_the_squared_temperature():
    taught = torch.tensor([[0.0, 2 * math.log(3)], [0.0, 0.0]])  # at T = 2: (1/4, 3/4) and (1/2, 1/2)
    learned = torch.tensor([[2 * math.log(2), 0.0], [0.0, 2 * math.log(4)]])  # (2/3, 1/3) and (1/5, 4/5)
    first = -(math.log(2 / 3) / 4 + 3 * math.log(1 / 3) / 4)
    second = -(math.log(1 / 5) + math.log(4 / 5)) / 2
    assert distillation(learned, taught, 2.0).item() == pytest.approx((first + second) / 2, rel=1e-6)


def test_a_distilled_step_is_cross_entropy_and_weighted_distillation_over_the_teachers_classes():
    student, teacher = network(5), network(3)
    loss = Distillation(student, torch.optim.SGD, weight=3.0, temperature=2.0)
    loss.load_teacher(snapshot(teacher))
    loss.columns = torch.tensor([1, 3, 4])
    inputs, labels = torch.randn(6, 2), torch.tensor([1, 3, 4, 4, 1, 3])
    logits = student(inputs)
    expected = cross_entropy(logits[:, [1, 3, 4]], torch.tensor([0, 1, 2, 2, 0, 1]))
    soft = (teacher(inputs) / 2).softmax(dim=1)
    expected = expected - 3 * (soft * (logits[:, :3] / 2).log_softmax(dim=1)).sum(dim=1).mean()
    assert loss.training_step((inputs, labels), 0).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(("columns", "distilled"), [([0, 2], [0, 2]), ([2, 4], [2]), ([], []), ([3], [])])
def test_distillation_over_some_of_the_teachers_classes(columns, distilled):
    """The softmax of teacher and student is over these alone; classes that the teacher does not know are left out."""
    student, teacher = network(5), network(3)
    loss = Distillation(student, torch.optim.SGD, weight=3.0, temperature=2.0)
    loss.load_teacher(snapshot(teacher))
    loss.assign(distil_columns=torch.tensor(columns, dtype=torch.int64))
    inputs, labels = torch.randn(6, 2), torch.tensor([1, 3, 4, 4, 1, 3])
    logits = student(inputs)
    expected = cross_entropy(logits, labels)
    if distilled:
        soft = (teacher(inputs)[:, distilled] / 2).softmax(dim=1)
        expected = expected - 3 * (soft * (logits[:, distilled] / 2).log_softmax(dim=1)).sum(dim=1).mean()
    assert loss.training_step((inputs, labels), 0).item() == pytest.approx(expected.item(), rel=1e-6)


class Jitter(nn.Module):
    """An augmentation: noise while training."""

    def forward(self, inputs):
        return inputs + torch.randn_like(inputs) if self.training else inputs


def seen_by(module):
    """From now on, what the module is given."""
    seen = []
    module.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].clone()))
    return seen


@pytest.mark.parametrize("kind", [Distillation, Rehearsal])
def test_teacher_and_student_see_the_same_augmented_inputs(kind):
    backbone = Backbone(2, True, nn.Identity, augment=Jitter)
    own = {"sigmoid": True} if kind is Rehearsal else {}
    loss = kind(network(3, backbone=backbone), torch.optim.SGD, weight=1.0, temperature=2.0, **own)
    loss.load_teacher(snapshot(network(2, backbone=backbone)))
    student, teacher = seen_by(loss.network.backbone), seen_by(loss.teacher.backbone)
    inputs = torch.randn(4, 2)
    torch.manual_seed(5)
    expected = inputs + torch.randn(4, 2)
    torch.manual_seed(5)
    loss.train().training_step((inputs, torch.tensor([0, 1, 2, 0])), 0)
    assert len(student) == len(teacher) == 1
    assert torch.equal(student[0], expected)  # changed once
    assert torch.equal(teacher[0], expected)


def test_a_network_augments_by_itself_in_training_mode_only():
    net = network(3, backbone=Backbone(2, True, nn.Identity, augment=Jitter))
    seen, inputs = seen_by(net.backbone), torch.randn(4, 2)
    net.train()(inputs)
    net.train()(inputs, augmented=True)
    net.eval()(inputs)
    assert not torch.equal(seen[0], inputs)
    assert torch.equal(seen[1], inputs)
    assert torch.equal(seen[2], inputs)


def test_without_a_teacher_it_is_plain_cross_entropy():
    plain = CrossEntropy(network(3), torch.optim.SGD)
    distilled = Distillation(network(3), torch.optim.SGD, weight=3.0, temperature=2.0)
    batch = torch.randn(4, 2), torch.tensor([0, 1, 2, 1])
    assert distilled.training_step(batch, 0) == plain.training_step(batch, 0)
    distilled.load_teacher(snapshot(network(2)))
    assert distilled.training_step(batch, 0) != plain.training_step(batch, 0)
    distilled.load_teacher(None)
    assert distilled.training_step(batch, 0) == plain.training_step(batch, 0)


def test_the_teacher_stays_as_it_is_and_predicts_in_eval_mode():
    backbone = normalised()
    loss = Distillation(network(3, backbone=backbone), torch.optim.SGD, weight=1.0, temperature=2.0)
    loss.load_teacher(snapshot(network(2, backbone=backbone)))
    before = snapshot(loss.teacher)
    data = Samples(torch.randn(40, 2) + 5, torch.arange(40) % 3)
    start = snapshot(loss.network)
    FabricFit(accelerator="cpu")(loss, data, epochs=3, batch_size=8)
    assert loss.network.training
    assert not loss.teacher.training
    assert all(torch.equal(value, before[name]) for name, value in snapshot(loss.teacher).items())
    assert not torch.equal(snapshot(loss.network)["backbone.running_mean"], start["backbone.running_mean"])


def test_outputs_are_those_of_one_large_batch():
    net = network(3).eval()
    inputs = torch.randn(7, 2)
    torch.testing.assert_close(outputs(net, inputs, batch_size=3), net(inputs).detach())


def test_the_nearest_mean_is_the_one_at_the_smallest_angle_and_unknown_classes_are_last():
    totals = torch.tensor([[10.0, 0.0], [3.0, 3.0], [0.0, 0.0]])
    scores = CosineToMeans(totals, torch.tensor([2, 1, 0]))(torch.tensor([[2.0, 0.1], [1.0, 1.2], [-1.0, -1.0]]))
    assert scores.argmax(dim=1).tolist() == [0, 1, 0]
    assert scores[2, 1].item() == pytest.approx(-1)
    assert scores[:, 2].tolist() == [-2.0] * 3


def test_logit_adjustment_by_hand():
    """Classes 0 and 2 with 3 and 0 samples count as 4 and 1 of 5; logits 1 and 0 become 1 + log 0.8 and log 0.2."""
    prior = log_frequencies(torch.tensor([0, 0, 0]), torch.tensor([0, 2]), weight=1.0)
    assert prior.tolist() == pytest.approx([math.log(0.8), math.log(0.2)])
    loss = CrossEntropy(network(3), torch.optim.SGD, columns=torch.tensor([0, 2]), prior=prior)
    found = loss.cross_entropy(torch.tensor([[1.0, 9.0, 0.0]]), torch.tensor([2]))
    odds = 0.8 * math.exp(1) / 0.2
    assert found.item() == pytest.approx(math.log(1 + odds))
    half = log_frequencies(torch.tensor([0, 0, 0]), torch.tensor([0, 2]), weight=0.5)
    assert half.tolist() == pytest.approx([math.log(0.8) / 2, math.log(0.2) / 2])


def test_without_weight_or_classes_there_is_no_logit_adjustment():
    assert log_frequencies(torch.tensor([0, 1]), torch.tensor([0, 1]), weight=0.0) is None
    nothing = torch.zeros(0, dtype=torch.int64)
    assert log_frequencies(nothing, nothing, weight=1.0) is None
