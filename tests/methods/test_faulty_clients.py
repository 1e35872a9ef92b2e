"""What methods make of faults: exact ones are joint learning of all that arrived, others go on."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import INPUTS, LABELS, learned, make, sgd
from scenarios import ANY

from fcl_bench.faults import Participation
from fcl_bench.message import encode
from fcl_bench.methods.afcl import AFCL
from fcl_bench.methods.fedcbc import FedCBC
from fcl_bench.methods.fedewc import FedEWC
from fcl_bench.methods.fedicarl import FediCaRL, Means
from fcl_bench.methods.fedncm import FedNCM
from fcl_bench.methods.scaffold import Scaffold
from fcl_bench.partition import Dirichlet
from fcl_bench.temporal import SiBlurry


class Listening(AFCL):
    """Remembers who made each upload, and of which task the uploads are that reach the server."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.made, self.arrived = {}, []

    def learn(self, state, task, clients):
        self.task = task.index

        def heard(function, *message):
            for reply in clients.everyone.map(function, *message):
                self.arrived.append(self.made[id(reply)][:2])
                yield reply

        return super().learn(state, task, SimpleNamespace(everyone=SimpleNamespace(map=heard)))

    def summarise(self, client, *message):
        return self.noted(client, super().summarise(client, *message))

    def solve(self, client):
        return self.noted(client, super().solve(client))

    def noted(self, client, reply):
        self.made[id(reply)] = (self.task, client.id, reply)
        return reply


def arrived_data(method, stream):
    """All samples whose updates have reached the server, and their class numbers."""
    assert len(set(method.arrived)) == len(method.arrived)
    parts = [np.zeros(0, dtype=np.int64), *(stream.indices(task, client) for task, client in method.arrived)]
    indices = np.concatenate(parts)
    return INPUTS[indices], stream.number[LABELS[indices]]


FORMS = [("statistics", "integer"), ("statistics", "float64"), ("recursive", "float64")]


@pytest.mark.parametrize(("form", "arithmetic"), FORMS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(who=ANY, clients=st.integers(1, 6), tasks=st.integers(1, 4))
def test_afcl_is_joint_learning_of_all_that_arrived(form, arithmetic, who, clients, tasks):
    method = make(Listening, form=form, arithmetic=arithmetic)
    done = learned(method, Dirichlet(clients, alpha=0.3), SiBlurry(tasks), who)
    inputs, numbers = arrived_data(method, done.stream)
    state = done.states[-1]
    rows = inputs.double().numpy()
    if arithmetic == "integer":
        rows = np.round(rows / method.sums.grid.step) * method.sums.grid.step
    targets = np.eye(len(done.stream.order))[numbers]
    expected = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ targets)
    weights = method.classifier(state).weights.numpy()
    assert weights.shape == expected.shape
    assert np.linalg.norm(weights - expected) <= 1e-9 * max(1, np.linalg.norm(expected))
    if arithmetic == "integer":
        whole = np.round(rows / method.sums.grid.step).astype(np.int64)
        assert np.array_equal(state.cross.numpy(), targets.T.astype(np.int64) @ whole)


@pytest.mark.parametrize("kind", [AFCL, FedNCM])
def test_late_answers_all_come_in_the_end_but_for_those_of_the_last_tasks(kind):
    """So with no new data in these, nothing is lost: here the last of two tasks is given to nobody."""
    who = Participation(late=1.0, delay=1)
    late = learned(make(kind), temporal=SiBlurry(4), who=who)
    usual = learned(make(kind), temporal=SiBlurry(4))
    before_last = encode(usual.states[-2].with_classes(late.stream.tasks[-1].seen))
    assert encode(late.states[-1]) == before_last


@pytest.mark.parametrize("kind", [AFCL, FedNCM])
def test_exact_methods_are_the_same_whatever_share_of_clients_takes_part_in_rounds(kind):
    few = learned(make(kind), Dirichlet(10, alpha=0.1), who=Participation(participation=0.2))
    all_of_them = learned(make(kind), Dirichlet(10, alpha=0.1))
    assert encode(few.states[-1]) == encode(all_of_them.states[-1])


def test_fedicarl_has_the_means_of_all_classes_whatever_share_of_clients_takes_part_in_rounds():
    done = learned(make(FediCaRL), Dirichlet(10, alpha=0.1), who=Participation(participation=0.2))
    assert done.states[-1].means.counts.min() > 0


class SilentInTheEnd(Participation):
    """In the last task nothing that clients say arrives."""

    def fates(self, there, everyone, seed, task, exchange):
        fates = super().fates(there, everyone, seed, task, exchange)
        return replace(fates, lost=frozenset(there.tolist())) if task == 2 else fates


def test_fedicarl_keeps_the_means_that_nobody_tells_again():
    done = learned(make(FediCaRL), who=SilentInTheEnd())
    before, after = done.states[5].means, done.states[-1].means  # of two rounds and the end, in three tasks
    known = len(before.counts)
    assert before.counts.min() > 0
    assert torch.equal(after.totals[:known], before.totals)
    assert after.counts.tolist() == before.counts.tolist() + [0] * (len(after.counts) - known)


def test_fedewc_keeps_what_mattered_where_nobody_tells_what_matters_now():
    done = learned(make(FedEWC), who=SilentInTheEnd())
    before, after = done.states[5].importance, done.states[-1].importance
    assert before.keys() == after.keys() == {"head.weight", "head.bias"}
    for name, values in before.items():
        assert values.max() > 0
        assert torch.equal(after[name][: len(values)], values)
        assert not after[name][len(values) :].any()


@pytest.mark.parametrize("kind", [FedEWC, FediCaRL, Scaffold])
def test_a_method_that_never_hears_anything_still_has_a_model(kind):
    done = learned(make(kind, optimizer=partial(sgd, momentum=0)), who=Participation(lost=1.0))
    weights = done.states[-1].weights
    assert len(weights["head.bias"]) == done.stream.tasks[-1].seen
    assert all(value.isfinite().all() for value in weights.values())
    assert not any(exchange.answered for exchange in done.exchanges)


def test_a_mean_that_is_told_again_replaces_the_earlier_one():
    now = Means(torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([2, 0, 0]))
    earlier = Means(torch.tensor([[5.0], [7.0], [0.0]]), torch.tensor([3, 4, 0]))
    merged = now.or_else(earlier)
    assert merged.totals.flatten().tolist() == [1, 7, 0]
    assert merged.counts.tolist() == [2, 4, 0]


def test_fedcbc_sends_its_adapter_again_to_a_client_that_has_lost_it():
    method = make(FedCBC, look_ahead=True, look_ahead_epochs=1, hidden=4, code=2, pseudo_samples=2, least=2)
    assert method.sees_future_classes
    done = learned(method, temporal=SiBlurry(3, reserved=3), who=Participation(forget=1.0))
    assert all("adapter" in memory for memory in done.memories[-1].values())
    assert [exchange.function for exchange in done.exchanges if exchange.task == 2] == ["train", "keep", "train"]
    assert done.states[-1].waiting == 0
