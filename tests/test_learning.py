"""The learning loop: what progress says, who pays for which second, and what is said about a method that is not one."""

import time

import numpy as np
import pytest
import torch

from fcl_bench.errors import UserError
from fcl_bench.federation import Federation, Participation
from fcl_bench.learning import Costs, beginning, learn
from fcl_bench.partition import IidClients
from fcl_bench.seeds import derive
from fcl_bench.stream import make_stream
from fcl_bench.temporal import IidTasks
from fcl_bench.transport.in_process import InProcess

LABELS = np.arange(60) % 3
INPUTS = torch.zeros(60, 2)
CLIENTS = 4


class Counter:
    """Hands out as many states per task as it has rounds; a state is the list of numbers drawn so far."""

    def __init__(self, rounds=2, nap=0.0):
        self.rounds = rounds
        self.nap = nap

    def init(self):
        return ()

    def learn(self, state, task, clients):
        for _ in range(task.yielded, self.rounds):
            answers = sum(clients.map(self.answer, torch.zeros(1)))
            time.sleep(self.nap)
            state = (*state, torch.rand(1).item() + answers)
            yield state
        clients.tell(self.answer, torch.zeros(1))

    def answer(self, client, message):
        return 1

    def classifier(self, state):
        return torch.nn.Identity()


def federation(method, clients=CLIENTS, tasks=2, **events):
    stream = make_stream(LABELS, LABELS, IidTasks(tasks), IidClients(clients), seed=0)
    return Federation(stream, INPUTS, LABELS, lambda: method, InProcess(), Participation(), seed=7, **events)


def test_progress_counts_states_and_exchanges_and_ends_each_task():
    method = Counter()
    steps = list(learn(method, federation(method), beginning(method)))
    assert [(step.task, step.yielded, step.exchanges) for step in steps] == [
        *((0, 1, 1), (0, 2, 2), (1, 0, 0)),
        *((1, 1, 1), (1, 2, 2), (2, 0, 0)),
    ]
    assert [step.between_tasks for step in steps] == [False, False, True] * 2
    assert steps[2].state == steps[1].state
    costs = steps[-1].costs
    assert (costs.exchanges, costs.downlink_bytes, costs.uplink_bytes) == (6, 6 * CLIENTS * 4, 6 * CLIENTS * 8)


def test_every_point_of_a_run_is_one_to_go_on_from():
    method = Counter(rounds=3)
    whole = list(learn(method, federation(method), beginning(method)))
    for position, start in enumerate(whole):
        rest = list(learn(Counter(rounds=3), federation(method), start))
        assert [step.state for step in rest] == [step.state for step in whole[position + 1 :]]
        assert [step.exchanges for step in rest] == [step.exchanges for step in whole[position + 1 :]]


def test_the_server_draws_by_task_and_step():
    method = Counter(rounds=2)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    last = list(learn(method, federation(method), beginning(method)))[-1]
    assert torch.equal(torch.get_rng_state(), before)
    expected = []
    for path in (("server", 0), ("server", 0, 1), ("server", 1), ("server", 1, 1)):
        expected.append(torch.rand(1, generator=torch.Generator().manual_seed(derive(7, *path))).item() + CLIENTS)
    assert last.state == tuple(expected)


def test_the_server_pays_for_its_own_work_only():
    """Neither what clients do nor what the harness does for each of them is the server's."""

    class Slow(Counter):
        def answer(self, client, message):
            time.sleep(0.01)
            return 1

        def class_sums(self, reply):
            time.sleep(0.02)

    slow = Slow(rounds=1, nap=0.05)
    busy = federation(slow, on_answer=lambda exchange: time.sleep(0.02), on_exchange=lambda exchange: time.sleep(0.1))
    costs = list(learn(slow, busy, beginning(slow)))[-1].costs
    assert costs.client_seconds >= 2 * 2 * CLIENTS * 0.01
    assert 2 * 0.05 <= costs.server_seconds < 0.5 * costs.wall_seconds
    assert costs.wall_seconds >= costs.client_seconds + costs.server_seconds + 4 * 0.1


def test_costs_add_up():
    assert Costs(1, 2, 3, 0.5, 0.25, 1.0) + Costs(10, 20, 30, 1, 2, 3) == Costs(11, 22, 33, 1.5, 2.25, 4.0)


def test_what_was_never_measured_stays_so_in_a_sum():
    measured = Costs(samples_revealed=2, revealing_uploads=1)
    assert (Costs() + Costs()).samples_revealed is None
    assert Costs() + measured == measured + Costs() == measured
    assert (measured + measured).samples_revealed == 4


class NoYield(Counter):
    def learn(self, state, task, clients):
        return iter(())


class Returns(Counter):
    def learn(self, state, task, clients):
        return (*state, 1)


class ReturnsNothing(Counter):
    def learn(self, state, task, clients):
        pass


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (NoYield, r"NoYield\.learn has handed out no state in task 1: it must yield at least one\."),
        (Returns, r"Expected Returns\.learn to yield states, but it returned tuple: write `yield state`"),
        (ReturnsNothing, r"Expected ReturnsNothing\.learn to yield states, but it returned NoneType"),
    ],
)
def test_a_learn_that_yields_nothing_is_named(kind, complaint):
    method = kind()
    with pytest.raises(UserError, match=complaint):
        list(learn(method, federation(method), beginning(method)))
