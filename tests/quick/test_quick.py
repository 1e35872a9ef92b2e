"""Which losses are trained quickly and which are not, where weights go by themselves, and what is kept between fits."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from fcl_bench import quick
from fcl_bench.backbone import Backbone
from fcl_bench.config.compose import build, composed
from fcl_bench.head import grown
from fcl_bench.local import FabricFit
from fcl_bench.losses import CrossEntropy, Network
from fcl_bench.message import snapshot
from fcl_bench.pull import Pull
from fcl_bench.quick import QuickFit
from fcl_bench.quick.coasting import Descent, coasted, hold
from fcl_bench.quick.pairs import Kept
from fcl_bench.quick.samples import pooled
from fcl_bench.quick.slopes import Slopes
from fcl_bench.quick.structure import quick_training
from fcl_bench.replay import Samples

SGD = partial(torch.optim.SGD, momentum=0.9, weight_decay=0.01)


def samples(number=21, features=4):
    random = torch.Generator().manual_seed(number)
    labels = torch.randint(0, 3, (number,), generator=random)
    return Samples(torch.randn(number, features, generator=random), labels)


def trained(fit, kind=CrossEntropy, optimizer=SGD, backbone=None, data=None):
    torch.manual_seed(1)
    loss = kind(Network(backbone or Backbone(4)), optimizer)
    loss.network.load_state_dict(grown(snapshot(loss.network), 3))
    loss.assign(lr=0.1)
    torch.manual_seed(2)
    fit(loss, samples() if data is None else data, 2, 8)
    return loss.network.head.weight.detach().clone()


@pytest.fixture
def fits(monkeypatch):
    """One entry for each fit that was quick."""
    original = quick.train
    taken = []

    def witnessed(*arguments):
        taken.append(arguments)
        original(*arguments)

    monkeypatch.setattr(quick, "train", witnessed)
    return taken


class OwnStep(CrossEntropy):
    def training_step(self, batch, batch_idx):
        return 2 * super().training_step(batch, batch_idx)


class OwnLogits(CrossEntropy):
    """Looks at all logits, but has forgotten to say so in ``rows``."""

    def loss_of_logits(self, logits, labels, advice, replayed):
        return super().loss_of_logits(logits, labels, advice, replayed) + logits.square().mean()


class OwnOptimizer(CrossEntropy):
    def configure_optimizers(self):
        return torch.optim.SGD([self.network.head.bias], lr=self.lr)


def test_a_plain_loss_is_trained_quickly(fits):
    torch.testing.assert_close(trained(QuickFit(accelerator="cpu")), trained(FabricFit(accelerator="cpu")))
    assert len(fits) == 1


@pytest.mark.parametrize(
    "how",
    [
        {"kind": OwnStep},
        {"kind": OwnLogits},
        {"kind": OwnOptimizer},
        {"optimizer": torch.optim.Adam},
        {"optimizer": partial(SGD, nesterov=True)},
        {"optimizer": partial(torch.optim.SGD, momentum=0.9, dampening=0.1)},
        {"optimizer": partial(SGD, maximize=True)},
        {"backbone": Backbone(4, True, lambda: nn.BatchNorm1d(4))},
        {"backbone": Backbone(4, augment=lambda: nn.Dropout(0.5))},
    ],
    ids=lambda how: next(iter(how)),
)
def test_whatever_does_not_fit_is_trained_the_plain_way_to_the_bit(how, fits):
    assert torch.equal(trained(QuickFit(accelerator="cpu"), **how), trained(FabricFit(accelerator="cpu"), **how))
    assert not fits


@pytest.mark.parametrize(
    "setting", [{"gradient_clip": 0.05}, {"precision": "bf16-mixed"}, {"compile": "eager"}], ids=str
)
def test_settings_that_need_fabric_are_trained_the_plain_way(setting, fits):
    found = trained(QuickFit(accelerator="cpu", **setting))
    assert torch.equal(found, trained(FabricFit(accelerator="cpu", **setting)))
    assert torch.equal(trained(QuickFit(accelerator="cpu").clipping(0.05)), trained(FabricFit(gradient_clip=0.05)))
    assert not fits


def test_more_samples_than_may_be_held_in_one_piece_are_trained_the_plain_way(fits, monkeypatch):
    monkeypatch.setattr(quick, "POOLED", 21 * 4 * 4 - 1)
    trained(QuickFit(accelerator="cpu"))
    assert not fits
    monkeypatch.setattr(quick, "POOLED", 21 * 4 * 4)
    trained(QuickFit(accelerator="cpu"))
    assert len(fits) == 1


def test_no_samples_are_no_training(fits):
    nothing = Samples(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    start = trained(FabricFit(accelerator="cpu"), data=nothing)
    assert torch.equal(trained(QuickFit(accelerator="cpu"), data=nothing), start)
    assert not fits


@pytest.mark.parametrize("name", ["finetune", "fedprox", "scaffold"])
def test_the_setting_reaches_methods_and_their_record(name):
    config = composed(f"method={name}", "local=quick")
    assert config.method.fit._target_ == "fcl_bench.quick.QuickFit"
    assert type(build(config.method, Backbone(4)).averaging.training["fit"]) is QuickFit


class Doubled(CrossEntropy):
    def cross_entropy(self, logits, labels):
        return 2 * super().cross_entropy(logits, labels)

    def rows(self):
        return super().rows()


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize(
    ("columns", "kind", "formula"),
    [
        (None, CrossEntropy, True),
        ([0, 2, 3], CrossEntropy, True),
        ([0, 2, 3], Doubled, False),
        (None, Doubled, False),
    ],
)
def test_slopes_are_those_of_autograd(columns, kind, formula, prior):
    random = torch.Generator().manual_seed(5)
    loss = kind(Network(Backbone(4)), SGD)
    loss.network.load_state_dict(grown(snapshot(loss.network), 5))
    taking_part = 5 if columns is None else len(columns)
    loss.assign(
        columns=None if columns is None else torch.tensor(columns),
        prior=torch.randn(taking_part, generator=random) if prior else None,
    )
    labels = torch.tensor([3, 0, 2, 3, 3, 0])
    data = Samples(torch.randn(6, 4, generator=random), labels)
    logits = 10 * torch.randn(6, 5, generator=random)
    whole = logits.clone().requires_grad_()
    loss.loss_of_logits(whole, labels, None, []).backward()

    training = quick_training(loss)
    pool = pooled(training, data, torch.device("cpu"))
    slopes = Slopes(training, pool)
    rows = torch.arange(5) if columns is None else torch.tensor(columns)
    (target,) = pool.targets([pool.step(torch.arange(6))])
    found = slopes.at(logits[:, rows].clone(), target)
    assert slopes.formula is formula
    torch.testing.assert_close(found, whole.grad[:, rows], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("few", "formula"), [(6, True), (5, False)])
def test_many_samples_are_left_to_autograd(few, formula, monkeypatch):
    monkeypatch.setattr("fcl_bench.quick.slopes.FEW", few)
    loss = CrossEntropy(Network(Backbone(4)), SGD)
    loss.network.load_state_dict(grown(snapshot(loss.network), 2))
    data = Samples(torch.randn(6, 4), torch.tensor([0, 1, 0, 1, 0, 1]))
    training = quick_training(loss)
    assert Slopes(training, pooled(training, data, torch.device("cpu"))).formula is formula


def by_torch(start, pull_gradient, steps, descent):
    """Weights in the hands of torch's own SGD."""
    value = nn.Parameter(start.clone().double())
    optimizer = torch.optim.SGD([value], descent.lr, momentum=descent.momentum, weight_decay=descent.weight_decay)
    for _ in range(steps):
        value.grad = pull_gradient(value.detach())
        optimizer.step()
    return value.detach()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.02])
@pytest.mark.parametrize("stiffness", [0.0, 0.7, "each"])
@pytest.mark.parametrize("steps", [1, 2, 57])
def test_weights_without_samples_go_where_torch_takes_them(momentum, weight_decay, stiffness, steps):
    random = torch.Generator().manual_seed(3)
    start, anchor, slope = torch.randn(3, 5, 4, generator=random)
    each = torch.rand(5, 4, generator=random) if stiffness == "each" else torch.full((5, 4), float(stiffness or 0))
    stiff = {"w": each[:3]} if stiffness == "each" else stiffness
    descent = Descent(0.1, momentum, weight_decay)
    known = {"w": anchor[:3]}
    held = hold("w", start, Pull(known, stiff, {"w": slope}), weight_decay)

    def gradient(value):
        pulled = slope.double()
        pulled[:3] += each[:3].double() * (value[:3] - anchor[:3])
        return pulled

    expected = by_torch(start, gradient, steps, descent)
    torch.testing.assert_close(coasted(start, held, steps, descent).double(), expected, rtol=1e-5, atol=1e-5)


def test_products_of_pairs_are_kept_only_for_the_same_samples():
    kept = Kept(room=2 * 4 * (10 * 6 + 10 * 10))  # two of these
    one, two, three = torch.randn(3, 10, 6)
    first = kept.products(one)
    rows = np.hstack([one.numpy(), np.ones((10, 1), dtype=np.float32)])
    np.testing.assert_allclose(first.numpy(), rows @ rows.T, rtol=1e-4, atol=1e-5)
    assert kept.products(one.clone()) is first
    changed = one.clone()
    changed[4, 2] += 1  # neither in the first sample nor in the last
    assert not torch.equal(kept.products(changed), first)
    kept.products(two)
    kept.products(three)
    assert kept.filled <= kept.room
    again = kept.products(one)
    assert again is not first
    assert torch.equal(again, first)
