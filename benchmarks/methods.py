"""A second task of each method that trains, as the harness counts it, against the same work by hand in plain PyTorch.

The second, so that teacher, Fisher information, exemplars, buffers and control variates are there.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, fields
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks import plain, plain_replay
from benchmarks.harness import learn_one_task, make_scenario
from benchmarks.measure import Row, best
from benchmarks.plain import HEAD, Second, weights_of
from fcl_bench.federation import Federation
from fcl_bench.learning import Progress, beginning
from fcl_bench.method import Method
from fcl_bench.methods.fedicarl import herded
from fcl_bench.run.scenario import Scenario
from fcl_bench.transport import Memories
from fcl_bench.transport.in_process import InProcess

REPEATS = 7
DATA = ("dataset=gaussian", "dataset.train_size=20000", "dataset.features=1280", "dataset.test_size=100")
TASKS = ("stream=disjoint", "stream.tasks=2", "partition=iid", "partition.clients=1")
TRAINING = ("method.rounds=1", "method.epochs=5", "method.batch_size=128")

Reference = Callable[[Second], tuple[Tensor, ...]]
Learned = Callable[[Any, dict[str, Any]], tuple[Tensor, ...]]  # beside the head, from state and client memory
METHODS: dict[str, tuple[Reference, Learned]] = {
    "fedprox": (plain.fedprox, lambda state, memory: ()),
    "scaffold": (plain.scaffold, lambda state, memory: tuple(memory["control"][name] for name in HEAD)),
    "fedlwf": (plain.fedlwf, lambda state, memory: ()),
    "fedewc": (plain.fedewc, lambda state, memory: tuple(state.importance[name] for name in HEAD)),
    "fedicarl": (
        plain_replay.fedicarl,
        lambda state, memory: (*fields_of(memory["exemplars"]), normalize(state.means.totals).T),
    ),
    "fedavg_er": (plain_replay.fedavg_er, lambda state, memory: tuple(memory["buffer"].columns.values())),
    "derpp": (plain_replay.derpp, lambda state, memory: tuple(memory["buffer"].columns.values())),
}


def methods() -> Iterator[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with TemporaryDirectory() as folder:
            for name in METHODS:
                settings = (f"method={name}", *DATA, *TASKS, *TRAINING, f"cache_dir={folder}")
                check_equal(name, make_scenario(*settings, "method.ce_scope=seen"))  # old classes are pulled at
                yield second_task(name, make_scenario(*settings))
        yield herding()
    finally:
        torch.set_num_threads(threads)


def second_task(name: str, scenario: Scenario) -> Row:
    """Clients and server together, every time from the end of the first task."""
    check_equal(name, scenario)
    after_first = first_task(scenario)
    second = begun(scenario, after_first)

    def harness() -> float:
        costs = after_first.go_on().costs
        before = after_first.progress.costs
        client_seconds = costs.client_seconds - before.client_seconds
        return client_seconds + costs.server_seconds - before.server_seconds

    seconds, reference = best(REPEATS, harness, lambda: by_hand(name, second))
    samples, features = second.inputs.shape
    how = f"5 epochs of a head over {samples:,} x {features} features, batch 128, then what is kept; one thread"
    return Row(f"{name}, second task / plain PyTorch", f"{how}; best of {REPEATS}", seconds, "s", reference, limit=1.2)


@dataclass
class AfterFirst:
    """A method, and what server and clients know after one task."""

    method: Method
    federation: Federation
    progress: Progress
    memories: Memories

    def go_on(self) -> Progress:
        """One more task, as often as wanted."""
        self.federation.restore(deepcopy(self.memories))
        return learn_one_task(self.method, self.federation, self.progress)


def first_task(scenario: Scenario) -> AfterFirst:
    method = scenario.method()
    federation = scenario.federation(InProcess())
    progress = learn_one_task(method, federation, beginning(method))
    return AfterFirst(method, federation, progress, deepcopy(federation.memories()))


def begun(scenario: Scenario, after_first: AfterFirst) -> Second:
    """The second task as tensors in memory."""
    indices = scenario.stream.indices(1, 0)
    labels = torch.from_numpy(scenario.stream.number[scenario.dataset.train.labels[indices]])
    settings: Any = OmegaConf.to_container(scenario.config.method, resolve=True)
    return Second(
        settings=SimpleNamespace(**settings),
        seed=scenario.config.seed,
        inputs=scenario.train[torch.from_numpy(indices)],
        labels=labels,
        classes=scenario.stream.tasks[1].seen,
        state=after_first.progress.state,
        memory=after_first.memories.get(0, {}),
    )


def by_hand(name: str, second: Second) -> tuple[Tensor, ...]:
    reference, _ = METHODS[name]
    return reference(second)


def check_equal(name: str, scenario: Scenario) -> None:
    """Times may be compared only where results are the same."""
    after_first = first_task(scenario)
    expected = by_hand(name, begun(scenario, after_first))
    state = after_first.go_on().state
    memory = after_first.federation.memories().get(0, {})
    _, learned = METHODS[name]
    found = *(weights_of(state)[part] for part in HEAD), *learned(state, memory)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two.detach(), rtol=1e-4, atol=1e-5)


def fields_of(kept: Any) -> tuple[Tensor, ...]:
    """The fields of a dataclass."""
    return tuple(getattr(kept, field.name) for field in fields(kept))


def herding() -> Row:
    features = normalize(torch.randn(500, 1280, dtype=torch.float64))
    (seconds,) = best(REPEATS, lambda: herded(features, torch.arange(500), 20))
    how = f"20 of the 500 x 1280 features of a class, one thread; best of {REPEATS}"
    return Row("herding by FediCaRL", how, 1000 * seconds, "ms", limit=50)
