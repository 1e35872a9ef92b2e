"""DER++: its loss by hand, and the logits that it stores; its buffer is in test_kept_samples.py."""

import pytest
import torch
from making import INPUTS, learned, make, sgd, with_head
from torch.nn.functional import cross_entropy

from fcl_bench import Backbone, Network, Reservoir
from fcl_bench.methods.derpp import DarkReplay, DERpp


def test_dark_replay_by_hand():
    network = with_head(Network(Backbone(2)), 3)
    loss = DarkReplay(network, sgd, alpha=0.3, beta=0.5, buffer=Reservoir())
    batch = torch.randn(4, 2), torch.tensor([1, 2, 2, 1])
    current = loss.training_step(batch, 0)
    only = torch.randn(1, 2)
    stored = {"logits": torch.tensor([[1.0, -1.0]]), "known": torch.tensor([2])}
    loss.buffer = Reservoir().add(5, inputs=only, labels=torch.tensor([0]), **stored)
    z = network(only)[0]
    mse = ((z[0] - 1) ** 2 + (z[1] + 1) ** 2) / 2  # the third class was not known when the sample was stored
    expected = current + 0.3 * mse + 0.5 * cross_entropy(z[None], torch.tensor([0]))
    assert loss.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-6)


def test_stored_logits_are_those_of_the_global_model_when_the_task_ended():
    method = make(DERpp, memory_size=1000, rounds=2)
    done = learned(method)
    ends = done.states[1::2]
    for client, memory in done.memories[-1].items():
        buffer = memory["buffer"]
        for task, end in enumerate(ends):
            for row in INPUTS[done.stream.indices(task, client)]:
                (place,) = (buffer["inputs"] == row).all(dim=1).nonzero().flatten()
                classes = int(buffer["known"][place])
                assert classes == done.stream.tasks[task].seen
                expected = method.classifier(end)(row[None])[0].detach()
                torch.testing.assert_close(buffer["logits"][place, :classes], expected, rtol=1e-5, atol=1e-5)
                assert not buffer["logits"][place, classes:].any()
