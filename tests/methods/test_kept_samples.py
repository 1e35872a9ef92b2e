"""The methods that keep samples at clients: how many, and whose."""

import numpy as np
import pytest
from making import INPUTS, learned, make

from fcl_bench import Reservoir
from fcl_bench.methods.derpp import DERpp
from fcl_bench.methods.fedavg_er import FedAvgER
from fcl_bench.methods.fedicarl import FediCaRL
from fcl_bench.partition import Dirichlet

BUDGET = 7
KEPT = {FedAvgER: "buffer", DERpp: "buffer", FediCaRL: "exemplars"}  # where in a client's memory


@pytest.fixture(scope="module", params=KEPT, ids=lambda kind: kind.__name__)
def crowded(request):
    """Twenty clients under alpha 0.05: some have no data of a task, some less than the budget."""
    method = make(request.param, memory_size=BUDGET, rounds=1, epochs=1)
    done = learned(method, Dirichlet(20, alpha=0.05, balance="capped"))
    assert (done.stream.sizes < BUDGET).any()
    assert (done.stream.sizes.sum(axis=0) > BUDGET).any()
    return done, KEPT[request.param]


def rows(memory, name):
    """The inputs that a client keeps."""
    if name not in memory:
        return []
    kept = memory[name]
    inputs = kept["inputs"] if isinstance(kept, Reservoir) else kept.inputs
    return [tuple(row) for row in inputs.tolist()]


def test_budgets_hold_after_every_task(crowded):
    done, name = crowded
    for task, memories in enumerate(done.memories):
        for client, memory in memories.items():
            held = sum(len(done.stream.indices(earlier, client)) for earlier in range(task + 1))
            assert len(rows(memory, name)) <= min(BUDGET, held)
    assert max(len(rows(memory, name)) for memory in done.memories[-1].values()) == BUDGET


def test_no_sample_is_of_another_client_or_of_a_task_to_come(crowded):
    done, name = crowded
    for task, memories in enumerate(done.memories):
        for client, memory in memories.items():
            own = np.concatenate([done.stream.indices(earlier, client) for earlier in range(task + 1)])
            held = {tuple(row) for row in INPUTS[own].tolist()}
            kept = rows(memory, name)
            assert set(kept) <= held
            assert len(set(kept)) == len(kept)
