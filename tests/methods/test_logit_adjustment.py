"""The setting ``logit_adjustment`` of all methods that train a softmax: what it changes, and what leaves a client."""

import math

import numpy as np
import pytest
import torch
from conftest import course
from making import INPUTS, LABELS, SHORT, first_network, make, sgd
from torch.nn.functional import cross_entropy

from fcl_bench.methods.derpp import DERpp
from fcl_bench.methods.fedavg_er import FedAvgER
from fcl_bench.methods.fedewc import FedEWC
from fcl_bench.methods.fedicarl import FediCaRL
from fcl_bench.methods.fedlwf import FedLwF
from fcl_bench.methods.fedmgp import FedMGP
from fcl_bench.methods.fedprox import FedProx
from fcl_bench.methods.finetune import Finetune
from fcl_bench.methods.joint import Joint
from fcl_bench.methods.scaffold import Scaffold
from fcl_bench.methods.target import TARGET
from fcl_bench.partition import Dirichlet, IidClients
from fcl_bench.temporal import Disjoint, SiBlurry

PLAIN_SGD = {"optimizer": torch.optim.SGD}
ADAM = {"optimizer": torch.optim.Adam, "lr": 0.01}
UNEVEN = np.flatnonzero((LABELS < 3) | (np.arange(len(LABELS)) < 40))  # 20 samples of some classes, 6 of others
METHODS = [
    (Finetune, {}),
    (FedProx, {}),
    (FedLwF, {}),
    (FedEWC, {}),
    (FediCaRL, {"predict": "linear"}),
    (FedAvgER, {}),
    (DERpp, {}),
    (Scaffold, PLAIN_SGD),
    (TARGET, {"synthesis_rounds": 1, "synthetic": 16, "synthesis_batch": 16, "generator_steps": 1}),
    (FedMGP, ADAM),
    (Joint, {"head": "sgd"}),
]


def learned(kind, weight, **settings):
    """The bytes of every exchange, and the logits of all samples in the end."""
    method = make(kind, logit_adjustment=weight, **settings)
    done = course(method, INPUTS[UNEVEN], LABELS[UNEVEN], SiBlurry(2), Dirichlet(3, alpha=0.1))
    return [exchange.uplink_bytes for exchange in done.exchanges], method.classifier(done.states[-1])(INPUTS)


@pytest.mark.parametrize(("kind", "settings"), METHODS)
def test_it_changes_what_is_learnt_and_not_what_is_sent(kind, settings):
    uplink, logits = learned(kind, 0.0, **settings)
    adjusted_uplink, adjusted_logits = learned(kind, 1.0, **settings)
    assert adjusted_uplink == uplink
    assert not torch.allclose(adjusted_logits, logits)


def test_finetune_descends_the_adjusted_cross_entropy():
    """One client, full batches: gradient descent on logits shifted by the log of (count + 1) / (n + classes)."""
    rows = np.flatnonzero(LABELS < 4)[:50]
    labels = LABELS[rows]
    method = make(Finetune, logit_adjustment=1.0, batch_size=1000, rounds=1)
    done = course(method, INPUTS[rows], labels, Disjoint(1), IidClients(1))
    numbers = torch.from_numpy(done.stream.number[labels])
    network = first_network(4)
    counts = torch.tensor([int((numbers == number).sum()) for number in range(4)])
    shift = torch.tensor([math.log((count + 1) / (50 + 4)) for count in counts])
    optimizer = sgd(network.parameters(), SHORT["lr"])
    for _ in range(SHORT["epochs"]):
        optimizer.zero_grad()
        cross_entropy(network(INPUTS[rows]) + shift, numbers).backward()
        optimizer.step()
    expected = network.head.weight.detach()
    torch.testing.assert_close(done.states[-1]["head.weight"], expected, rtol=1e-5, atol=1e-6)
