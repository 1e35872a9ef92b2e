"""Every method that trains a head quickly, against the plain way from the same random numbers."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from conftest import course
from making import make, sgd

from fcl_bench import Backbone, quick
from fcl_bench.local import FabricFit
from fcl_bench.message import encode
from fcl_bench.methods.derpp import DERpp
from fcl_bench.methods.fedavg_er import FedAvgER
from fcl_bench.methods.fedewc import FedEWC
from fcl_bench.methods.fedicarl import FediCaRL
from fcl_bench.methods.fedlwf import FedLwF
from fcl_bench.methods.fedprox import FedProx
from fcl_bench.methods.finetune import Finetune
from fcl_bench.methods.scaffold import Scaffold
from fcl_bench.quick import QuickFit, pairs
from fcl_bench.quick.spaces import FeatureSpace, SampleSpace
from fcl_bench.temporal import Disjoint, SiBlurry
from fcl_bench.transport.wire import Wire

PLAIN = FabricFit(accelerator="cpu")
QUICK = QuickFit(accelerator="cpu")
LABELS = np.arange(90) % 6
SMALL = 20  # samples that a reservoir or a client's exemplars hold
METHODS = {
    "finetune": partial(make, Finetune),
    "fedprox": partial(make, FedProx, mu=0.3),
    "fedewc": partial(make, FedEWC, penalty=5.0),
    "scaffold": partial(make, Scaffold, optimizer=partial(sgd, momentum=0)),
    "fedlwf": partial(make, FedLwF),
    "fedlwf, all it knows": partial(make, FedLwF, distil="known"),
    "fedicarl": partial(make, FediCaRL, memory_size=SMALL),
    "fedicarl, sigmoids": partial(make, FediCaRL, memory_size=SMALL, loss="bce", lr=0.02),
    "fedavg_er": partial(make, FedAvgER, memory_size=SMALL),
    "derpp": partial(make, DERpp, memory_size=SMALL),
}
STREAMS = {"blurry": SiBlurry(3), "disjoint": Disjoint(3)}


class Uneven:
    """A client without samples, one with a single one, one whose last batch would be a lone one, and one with the rest.

    Which client is which changes from task to task.
    """

    clients = 4
    name = "uneven"

    def split(self, labels, seed, task):
        order = np.random.default_rng(task).permutation(len(labels))
        shares = [np.sort(part) for part in np.split(order, [0, 1, 10])]
        return shares[task:] + shares[:task]


@cache
def inputs(features):
    random = torch.Generator().manual_seed(features)
    middles = torch.randn(6, features, generator=random)
    return (torch.randn(90, features, generator=random) + middles[LABELS]) * (5 / features**0.5)


def learned(name, fit, features, stream, transport=None, **settings):
    method = METHODS[name](Backbone(features), fit=fit, rounds=3, **{"batch_size": 8} | settings)
    return course(method, inputs(features), LABELS, STREAMS[stream], Uneven(), transport=transport)


def model(state):
    weights = state if isinstance(state, dict) else state.weights
    return torch.cat([value.flatten() for value in weights.values()])


@pytest.fixture
def spaces(monkeypatch):
    """Where quick training took place, fit by fit."""

    def witnessed(*arguments):
        space = choice(*arguments)
        kinds.append(type(space))
        return space

    kinds = []
    choice = quick.space_for
    monkeypatch.setattr(quick, "space_for", witnessed)
    return kinds


@pytest.mark.parametrize(("features", "stream"), [(6, "blurry"), (400, "blurry"), (400, "disjoint")])
@pytest.mark.parametrize("scope", ["task", "seen", "local"])
@pytest.mark.parametrize("name", METHODS)
def test_it_ends_where_the_plain_way_ends(name, scope, features, stream, spaces):
    plain = learned(name, PLAIN, features, stream, ce_scope=scope)
    assert not spaces
    found = learned(name, QUICK, features, stream, ce_scope=scope)
    assert len(spaces) == 3 * 3 * 3, "some fits have taken the plain way"  # tasks, rounds, clients that have samples
    assert (FeatureSpace if features == 6 else SampleSpace) in spaces
    assert len(found.states) == len(plain.states)
    for one, other in zip(found.states, plain.states, strict=True):
        gap = (model(one) - model(other)).norm() / model(other).norm()
        assert gap < 1e-5


@pytest.mark.parametrize("name", METHODS)
def test_both_spaces_give_the_same(name, monkeypatch):
    monkeypatch.setattr(quick, "sample_space_is_less_work", lambda *_: True)
    samples = learned(name, QUICK, 30, "blurry").states[-1]
    monkeypatch.setattr(quick, "sample_space_is_less_work", lambda *_: False)
    features = learned(name, QUICK, 30, "blurry").states[-1]
    assert (model(samples) - model(features)).norm() / model(features).norm() < 1e-5


@pytest.mark.parametrize("name", METHODS)
def test_without_decay_and_momentum_and_in_one_batch(name, spaces):
    settings = {"optimizer": partial(sgd, momentum=0, weight_decay=0), "batch_size": 1000}
    for features in (6, 400):
        plain = model(learned(name, PLAIN, features, "blurry", **settings).states[-1])
        found = model(learned(name, QUICK, features, "blurry", **settings).states[-1])
        assert (found - plain).norm() / plain.norm() < 1e-5
    assert {FeatureSpace, SampleSpace} == set(spaces)


@pytest.mark.parametrize("name", ["fedavg_er", "fedicarl", "fedewc"])
def test_transports_and_what_is_kept_of_earlier_fits_change_no_bit(name, monkeypatch):
    monkeypatch.setattr(pairs, "WORTHWHILE", 0)
    first = learned(name, QUICK, 400, "blurry")
    assert pairs.KEPT.entries
    again = learned(name, QUICK, 400, "blurry")
    pairs.KEPT.forget()
    wired = learned(name, QUICK, 400, "blurry", transport=Wire())
    assert encode(first.states[-1]) == encode(again.states[-1]) == encode(wired.states[-1])
