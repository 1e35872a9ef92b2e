"""SCAFFOLD: what its control variates are, and which way they turn the steps."""

from functools import partial

import pytest
import torch
from making import FEATURES, INPUTS, LABELS, first_network, learned, make, sgd
from torch.nn.functional import cross_entropy

from fcl_bench import Backbone, ConfigError, Network
from fcl_bench.methods.finetune import Finetune
from fcl_bench.methods.scaffold import Scaffold
from fcl_bench.partition import IidClients
from fcl_bench.temporal import Disjoint

DECAY = 0.01
ONE_STEP = {"optimizer": partial(sgd, momentum=0, weight_decay=DECAY), "epochs": 1, "batch_size": 1000}


def gradient_of(client, network, stream):
    """Of one client's whole data, weight decay included."""
    indices = stream.indices(0, client)
    labels = torch.from_numpy(stream.number[LABELS[indices]])
    loss = cross_entropy(network(INPUTS[indices]), labels)
    weight = network.head.weight
    return torch.autograd.grad(loss, weight)[0] + DECAY * weight.detach()


@pytest.mark.parametrize("rounds", [1, 4])
def test_with_one_client_and_one_step_it_is_sgd(rounds):
    one = learned(make(Scaffold, rounds=rounds, **ONE_STEP), IidClients(1), Disjoint(2))
    two = learned(make(Finetune, rounds=rounds, **ONE_STEP), IidClients(1), Disjoint(2))
    for name, value in two.states[-1].items():
        torch.testing.assert_close(one.states[-1].weights[name], value, rtol=1e-5, atol=1e-6)


def test_control_variates_are_the_gradients_of_the_clients_and_their_mean():
    """After one full-batch step (w_global - w_k) / lr is the gradient at w_global, weight decay included."""
    done = learned(make(Scaffold, rounds=1, **ONE_STEP), IidClients(3), Disjoint(1))
    gradients = [gradient_of(client, first_network(6), done.stream) for client in range(3)]
    for client, gradient in enumerate(gradients):
        own = done.memories[-1][client]["control"]["head.weight"]
        torch.testing.assert_close(own, gradient, rtol=1e-4, atol=1e-5)
    control = done.states[-1].control["head.weight"]
    torch.testing.assert_close(control, torch.stack(gradients).mean(dim=0), rtol=1e-4, atol=1e-5)


def test_the_second_round_steps_along_the_mean_gradient():
    """With full batches and one step per round, g_k - c_k + c removes what distinguishes clients at w_global."""
    done = learned(make(Scaffold, rounds=2, **ONE_STEP), IidClients(3), Disjoint(1))
    first, second = done.states
    network = Network(Backbone(FEATURES)).loaded(first.weights)
    steps = [gradient_of(client, network, done.stream) for client in range(3)]  # the corrections cancel in the mean
    expected = first.weights["head.weight"] - 0.1 * torch.stack(steps).mean(dim=0)
    torch.testing.assert_close(second.weights["head.weight"], expected, rtol=1e-4, atol=1e-5)


def test_the_server_moves_by_its_own_learning_rate():
    full, half = (
        learned(make(Scaffold, server_lr=rate, rounds=1, **ONE_STEP), IidClients(3), Disjoint(1)).states[-1]
        for rate in (1.0, 0.5)
    )
    start = first_network(6).head.weight.detach()
    moved = full.weights["head.weight"] - start
    torch.testing.assert_close(half.weights["head.weight"], start + moved / 2, rtol=1e-4, atol=1e-6)


def test_momentum_is_refused():
    with pytest.raises(ConfigError, match=r"SCAFFOLD needs plain SGD, but method.optimizer has momentum: set it to 0"):
        make(Scaffold, optimizer=sgd)
