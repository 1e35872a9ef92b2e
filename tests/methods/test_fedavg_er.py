"""FedAvg-ER: what a step descends; its buffer is in test_kept_samples.py."""

import pytest
import torch
from making import sgd, with_head
from torch.nn.functional import cross_entropy

from fcl_bench import Backbone, Network, Reservoir
from fcl_bench.methods.fedavg_er import Replay


def test_a_step_descends_the_mean_of_two_cross_entropies():
    network = with_head(Network(Backbone(2)), 3)
    loss = Replay(network, sgd, columns=torch.tensor([1, 2]), buffer=Reservoir())
    batch = torch.randn(4, 2), torch.tensor([1, 2, 2, 1])
    current = loss.training_step(batch, 0)
    only = torch.randn(1, 2)
    loss.buffer = Reservoir().add(5, inputs=only, labels=torch.tensor([0]))
    old = cross_entropy(network(only), torch.tensor([0]))  # over all classes: 0 is not in the scope of the task
    assert loss.training_step(batch, 0).item() == pytest.approx(((current + old) / 2).item(), rel=1e-6)
