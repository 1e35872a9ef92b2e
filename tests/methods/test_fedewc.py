"""FedEWC: the Fisher information against brute force, the penalty against a quadratic worked out by hand."""

from functools import partial

import numpy as np
import pytest
import torch
from conftest import course
from making import INPUTS, LABELS, accuracy_on_the_first_task, learned, make, room_for_both, sgd, with_head
from torch import nn
from torch.nn.functional import cross_entropy

from fcl_bench import Backbone, Network, snapshot
from fcl_bench.message import encode
from fcl_bench.methods.fedewc import Curvature, Elastic, FedEWC, Global, linear_fisher, sampled_fisher
from fcl_bench.methods.finetune import Finetune
from fcl_bench.partition import IidClients
from fcl_bench.temporal import Disjoint
from fcl_bench.traffic import size

COLUMNS = torch.tensor([0, 2, 3, 5])


def images():
    def build():
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    network = with_head(Network(Backbone(4, True, build)), 6).eval()
    network.backbone[1].running_mean += torch.randn(4)
    return network, torch.randn(70, 3, 6, 6)


def brute_force(network, inputs, labels, columns):
    """One sample at a time."""
    sums = {name: torch.zeros_like(value) for name, value in network.named_parameters()}
    for sample, label in zip(inputs, labels, strict=True):
        network.zero_grad()
        position = columns.tolist().index(int(label))
        cross_entropy(network(sample[None])[:, columns], torch.tensor([position])).backward()
        for name, value in network.named_parameters():
            sums[name] += value.grad**2
    return sums


def test_the_fisher_of_a_linear_head_is_that_of_brute_force():
    network = with_head(Network(Backbone(5)), 6)
    labels = COLUMNS[torch.arange(30) % 4]
    found, expected = (function(network, INPUTS[:30], labels, COLUMNS) for function in (linear_fisher, brute_force))
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)
    assert torch.equal(found["head.bias"][[1, 4]], torch.zeros(2))  # classes outside of the scope


def test_the_fisher_of_any_network_is_that_of_brute_force_and_leaves_batchnorm_alone():
    network, inputs = images()
    labels = COLUMNS[torch.arange(len(inputs)) % 4]
    before = snapshot(network)
    found = sampled_fisher(network, inputs, labels, COLUMNS)
    assert all(torch.equal(value, before[name]) for name, value in snapshot(network).items())
    for name, value in brute_force(network, inputs, labels, COLUMNS).items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-6)
        assert value.abs().sum() > 0


def test_the_penalty_pulls_the_local_model_as_a_hand_worked_quadratic():
    """With penalty 4, the gradient gains 4 F (w - w*) for what is remembered, and nothing for a new row."""
    method = make(FedEWC, penalty=4.0)
    loss_module = method.averaging.loss
    network = loss_module.network
    weights = {"head.weight": torch.arange(15.0).view(3, 5) / 10, "head.bias": torch.ones(3)}
    network.load_state_dict(weights)
    anchor = {"head.weight": torch.zeros(2, 5), "head.bias": torch.zeros(2)}
    fisher = {"head.weight": torch.full((2, 5), 0.5), "head.bias": torch.tensor([0.25, 100.0])}
    batch = INPUTS[:9], torch.arange(9) % 3
    gradients = []
    for remembered in (None, Global(anchor, fisher)):
        method.remind(remembered, lr=0.1)
        network.zero_grad()
        loss = loss_module.training_step(batch, 0)
        loss.backward()
        gradients.append((network.head.weight.grad.clone(), network.head.bias.grad.clone(), loss.item()))
    weight, bias, value = (new - old for old, new in zip(*gradients, strict=True))
    torch.testing.assert_close(weight, torch.cat([4 * 0.5 * weights["head.weight"][:2], torch.zeros(1, 5)]))
    torch.testing.assert_close(bias, torch.tensor([4 * 0.25, 10.0, 0.0]))  # 4 x 100 is capped at 1 / lr
    squares = 0.5 * float((weights["head.weight"][:2] ** 2).sum())
    assert value == pytest.approx(4 / 2 * (squares + 0.25) + 10 / 2, rel=1e-5)


def test_the_server_takes_the_mean_over_all_samples_and_adds_it_to_what_it_knows():
    done = learned(make(FedEWC, decay=0.5, ce_scope="seen"))
    previous = {}
    for task, state in enumerate((done.states[2], done.states[5], done.states[8])):
        seen = done.stream.tasks[task].seen
        indices = np.concatenate([done.stream.indices(task, client) for client in range(3)])
        labels = torch.from_numpy(done.stream.number[LABELS[indices]])
        network = Network(Backbone(5)).loaded(state.weights).eval()
        sums = brute_force(network, INPUTS[indices], labels, torch.arange(seen))
        for name, value in sums.items():
            expected = value / len(indices)
            if previous:
                expected[: len(previous[name])] += 0.5 * previous[name]
            torch.testing.assert_close(state.importance[name], expected, rtol=1e-3, atol=1e-6)
        previous = state.importance


def test_importance_stays_and_covers_new_classes_where_no_client_answers():
    method = make(FedEWC)
    state = Global({"head.weight": torch.ones(3, 3)}, {"head.weight": torch.full((2, 3), 5.0)})
    for replies in ([], [Curvature({}, 0)]):
        found = method.consolidated(state, iter(replies))
        assert found["head.weight"].tolist() == [[5.0] * 3, [5.0] * 3, [0.0] * 3]


def test_importance_and_anchor_go_down_once_per_task():
    done = learned(make(FedEWC))
    names = [(exchange.task, exchange.function) for exchange in done.exchanges]
    assert names[:3] == [(0, "train"), (0, "train"), (0, "fisher")]
    assert names[3:7] == [(1, "keep"), (1, "train"), (1, "train"), (1, "fisher")]
    assert done.exchanges[3].downlink_bytes == 3 * size(done.states[2])
    assert encode(done.memories[1][0]["remembered"]) == encode(done.states[2])


def test_without_a_penalty_it_is_finetune():
    one = learned(make(Finetune, batch_size=1000)).states[-1]
    two = learned(make(FedEWC, batch_size=1000, penalty=0.0)).states[-1].weights
    three = learned(make(FedEWC, batch_size=1000, penalty=1.0)).states[-1].weights
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(one["head.weight"], three["head.weight"], rtol=1e-3)


def test_the_published_variant_is_finetune_without_weight_decay():
    """Bit for bit, with clients of one size: its penalty never reaches the weights that are trained."""
    bare = make(Finetune, optimizer=partial(sgd, weight_decay=0))
    published = make(FedEWC, variant="target_repo", penalty=1000.0)
    one, two = (learned(method, IidClients(3), Disjoint(2)).states[-1] for method in (bare, published))
    assert encode(one) == encode(two.weights)
    assert two.importance == {}


def test_the_published_variant_moves_the_statistics_of_batchnorm_once_more_per_round():
    backbone = Backbone(5, True, lambda: nn.BatchNorm1d(5))
    once = {"rounds": 1, "epochs": 1, "batch_size": 1000}
    plain = learned(make(Finetune, backbone, **once), IidClients(2), Disjoint(1)).states[-1]
    published = learned(make(FedEWC, backbone, variant="target_repo", **once), IidClients(2), Disjoint(1)).states[-1]
    assert int(plain["backbone.num_batches_tracked"]) == 1
    assert int(published.weights["backbone.num_batches_tracked"]) == 2


def test_it_forgets_less_than_finetune():
    inputs = room_for_both()
    right = {}
    for kind in (Finetune, FedEWC):
        method = make(kind, Backbone(20), ce_scope="seen", rounds=10, epochs=3, penalty=100.0)
        done = course(method, inputs, LABELS, Disjoint(2), IidClients(2))
        right[kind] = accuracy_on_the_first_task(method, inputs, done)
    assert right[FedEWC] > right[Finetune] + 0.05, right


def test_elastic_is_plain_cross_entropy_while_nothing_is_remembered():
    network = with_head(Network(Backbone(5)), 6)
    loss = Elastic(network, sgd)
    labels = torch.arange(12) % 6
    assert loss.training_step((INPUTS[:12], labels), 0) == cross_entropy(network(INPUTS[:12]), labels)
