"""Finetune, and with it federated averaging: rounds, schedules, the growing head, the classes in the softmax."""

import math
from dataclasses import replace
from types import SimpleNamespace

import making
import numpy as np
import pytest
import torch
from conftest import course
from making import accuracy, server_random, sgd
from torch import nn
from torch.nn.functional import cross_entropy

from fcl_bench import ConfigError, Task, Update
from fcl_bench.local import shuffled
from fcl_bench.methods.finetune import Finetune
from fcl_bench.partition import Dirichlet, Iid
from fcl_bench.stream import make_stream
from fcl_bench.temporal import Disjoint

SAMPLES, FEATURES = 60, 5
LABELS = np.arange(SAMPLES) % 4
INPUTS = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(0)) + 3 * torch.eye(4, FEATURES)[LABELS]


def finetune(**settings):
    return making.make(Finetune, **{"rounds": 3} | settings)


def learned(method, partition, tasks=2):
    done = course(method, INPUTS, LABELS, Disjoint(tasks), partition)
    return done.stream, done.states


def start() -> nn.Linear:
    """The head before the first round: Kaiming-uniform rows with gain 1, no bias, from the server's seed."""
    network, bound = nn.Linear(FEATURES, 4), math.sqrt(3 / FEATURES)
    server_random()
    with torch.no_grad():
        network.weight.copy_(torch.empty(4, FEATURES).uniform_(-bound, bound))
        network.bias.zero_()
    return network


def test_one_client_one_batch_is_plain_gradient_descent():
    """With one client and full batches there is no randomness left: each round is momentum SGD from zero momentum."""
    _, states = learned(finetune(batch_size=1000), Iid(1), tasks=1)
    network = start()
    stream = make_stream(LABELS, LABELS, Disjoint(1), Iid(1), seed=1)
    labels = torch.from_numpy(stream.number[LABELS])
    for state in states:
        optimizer = sgd(network.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            cross_entropy(network(INPUTS), labels).backward()
            optimizer.step()
        torch.testing.assert_close(state["head.weight"], network.weight.detach(), rtol=1e-5, atol=1e-6)


def test_a_round_is_the_weighted_mean_of_what_the_clients_train():
    method = finetune(rounds=1, batch_size=1000)
    stream, (state,) = learned(method, Dirichlet(3, alpha=0.3, balance="capped"), tasks=1)
    sizes, weights = [], []
    for client in range(3):
        indices = stream.indices(0, client)
        network = start()
        optimizer = sgd(network.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            labels = torch.from_numpy(stream.number[LABELS[indices]])
            cross_entropy(network(INPUTS[indices]), labels).backward()
            optimizer.step()
        sizes.append(len(indices))
        weights.append(network.weight.detach() * len(indices))
    assert len(set(sizes)) > 1
    torch.testing.assert_close(state["head.weight"], sum(weights) / sum(sizes), rtol=1e-5, atol=1e-6)


def test_ce_scope_task_gives_old_rows_no_gradient_but_seen_pushes_them_down():
    results = {}
    for scope in ("task", "seen", "local"):
        method = finetune(ce_scope=scope, optimizer=torch.optim.SGD)  # without weight decay, which shrinks all rows
        _, states = learned(method, Iid(2))
        first, last = states[2]["head.bias"], states[-1]["head.bias"]
        results[scope] = (last[: len(first)] - first).abs().max()
    assert results["task"] == 0
    assert results["local"] == 0
    assert results["seen"] > 0.01


def test_the_head_grows_by_registration():
    _, states = learned(finetune(), Iid(2))
    assert [len(state["head.bias"]) for state in states] == [2] * 3 + [4] * 3


@pytest.mark.parametrize(
    ("schedule", "lr_end", "rates"),
    [
        ("constant", 0, [0.1] * 4),
        ("cosine", 0, [0.1, 0.0853553, 0.05, 0.0146447]),
        ("cosine", 0.02, [0.1, 0.0882843, 0.06, 0.0317157]),
        ("step", 0, [0.1, 0.1, 0.01, 0.001]),
    ],
)
def test_schedules(schedule, lr_end, rates):
    averaging = finetune(rounds=4, schedule=schedule, lr_end=lr_end).averaging
    assert [averaging.rate(number) for number in range(4)] == pytest.approx(rates, rel=1e-5)


@pytest.mark.parametrize("samples", [1, 2, 15, 16, 17, 18, 32, 33])
def test_the_number_of_steps_is_that_of_the_loop(samples):
    for batch_size in (1, 16):
        averaging = finetune(batch_size=batch_size, epochs=3).averaging
        data = torch.utils.data.TensorDataset(torch.zeros(samples, 1))
        assert averaging.steps(samples) == len(list(shuffled(data, 3, batch_size)))


def test_momentum_does_not_outlive_a_client_call():
    """Two rounds of one epoch differ from one round of two epochs, which keeps its momentum."""
    _, two = learned(finetune(rounds=2, epochs=1, batch_size=1000), Iid(1), tasks=1)
    _, one = learned(finetune(rounds=1, epochs=2, batch_size=1000), Iid(1), tasks=1)
    assert not torch.allclose(two[-1]["head.weight"], one[-1]["head.weight"], rtol=1e-3)


def test_it_forgets():
    """On disjoint tasks with a shared softmax over the task only, the first task's accuracy falls."""
    method = finetune(ce_scope="seen", rounds=10)
    stream, states = learned(method, Iid(2))
    old = np.isin(stream.number[LABELS], (0, 1))
    labels = torch.from_numpy(stream.number[LABELS])[old]
    before, after = (accuracy(method, states[position], INPUTS[old], labels) for position in (9, -1))
    assert before > 0.9
    assert after < before - 0.3


def test_a_resumed_task_goes_on_with_the_next_round():
    """Two clients that add nothing: of four rounds on a cosine, those after the second are left."""
    received = []

    def replies(train, round_):
        received.append(round_)
        return [Update(round_.weights, samples) for samples in (1, 2)]

    method = finetune(rounds=4, schedule="cosine", lr=0.1)
    task = Task(index=0, registrations=(), known=(), new=(0, 1), seen=2)
    (state, *_) = method.learn(method.init(), task, SimpleNamespace(map=replies))
    assert len(received) == 4
    resumed = list(method.learn(state, replace(task, yielded=2), SimpleNamespace(map=replies)))
    assert len(resumed) == 2
    assert [sent.lr for sent in received[4:]] == pytest.approx([0.05, 0.0146447], rel=1e-5)
    assert torch.equal(received[4].weights["head.weight"], state["head.weight"])


def test_a_name_that_the_loss_does_not_declare_is_refused():
    loss = finetune().averaging.loss
    with pytest.raises(TypeError, match="Expected CrossEntropy to declare ancor as an annotated class attribute"):
        loss.assign(ancor=1.0)


def test_an_impossible_optimizer_is_refused_at_once():
    def backwards(parameters, lr):
        return torch.optim.SGD(parameters, lr=lr, momentum=-1)

    with pytest.raises(
        ConfigError, match=r"Expected method.optimizer to be one that torch accepts, but: Invalid momentum"
    ):
        finetune(optimizer=backwards)
