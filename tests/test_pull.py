"""What holds weights in training, against values worked out by hand and by autograd."""

import pytest
import torch
from torch import nn

from fcl_bench.backbone import Backbone
from fcl_bench.head import grown
from fcl_bench.losses import Network
from fcl_bench.message import snapshot
from fcl_bench.pull import Pull, squared_distance


def network(classes):
    made = Network(Backbone(2))
    torch.manual_seed(classes)
    return made.loaded(grown(snapshot(made), classes))


def test_squared_distance_by_hand_and_its_gradient():
    net = network(3)
    anchor = {"head.weight": torch.zeros(2, 2), "head.bias": torch.ones(2)}
    importance = {"head.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "head.bias": torch.tensor([5.0, 6.0])}
    w, b = net.head.weight.detach(), net.head.bias.detach()
    assert squared_distance(net, anchor).item() == pytest.approx(float((w[:2] ** 2).sum() + ((b[:2] - 1) ** 2).sum()))
    weighed = squared_distance(net, anchor, importance)
    by_hand = w[0, 0] ** 2 + 2 * w[0, 1] ** 2 + 3 * w[1, 0] ** 2 + 4 * w[1, 1] ** 2
    by_hand = by_hand + 5 * (b[0] - 1) ** 2 + 6 * (b[1] - 1) ** 2
    assert weighed.item() == pytest.approx(by_hand.item())
    weighed.backward()
    torch.testing.assert_close(net.head.weight.grad[:2], 2 * importance["head.weight"] * w[:2])
    assert torch.equal(net.head.weight.grad[2], torch.zeros(2))  # a row that the anchor does not have is free


def gradients(pull, net, loss):
    net.zero_grad()
    pull.added_to(loss(net), net).backward()
    return [value.grad.clone() for value in net.parameters()]


def test_a_pull_has_the_gradient_of_its_formula():
    net = network(3)
    anchor = {"head.weight": torch.full((2, 2), 0.5), "head.bias": torch.ones(2)}
    slope = {"head.weight": torch.arange(6.0).view(3, 2), "head.bias": torch.tensor([1.0, -1.0, 2.0])}
    found = gradients(Pull(anchor, 0.3, slope), net, lambda net: net(torch.ones(1, 2)).sum())
    for grad, (name, value), data in zip(found, net.named_parameters(), (torch.ones(3, 2), torch.ones(3)), strict=True):
        expected = data + slope[name]
        expected[:2] += 0.3 * (value.detach()[:2] - anchor[name])
        torch.testing.assert_close(grad, expected)


def test_a_slope_is_scaled_as_the_loss_is():
    net = nn.Linear(2, 1)
    slope = {name: torch.ones_like(value) for name, value in net.named_parameters()}
    net.zero_grad()
    (4 * Pull(slope=slope).added_to(net(torch.ones(1, 2)).sum(), net)).backward()
    assert net.weight.grad.tolist() == [[8.0, 8.0]]
    assert net.bias.grad.tolist() == [8.0]
