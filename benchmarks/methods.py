"""A second task of each method that trains, as the harness counts it, against the same work by hand in plain PyTorch.

The second, so that teacher, Fisher information, exemplars, buffers and control variates are there.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import fields
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks import plain, plain_replay
from benchmarks.harness import learn_task, make_world
from benchmarks.measure import Row, best
from benchmarks.plain import HEAD, Second, weights_of
from fcl_bench.federation import Meter
from fcl_bench.method import Method
from fcl_bench.methods.fedicarl import herded
from fcl_bench.run.scenario import World

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
                check_equal(name, make_world(*settings, "method.ce_scope=seen"))  # old classes are pulled at
                yield second_task(name, make_world(*settings))
        yield herding()
    finally:
        torch.set_num_threads(threads)


def second_task(name: str, world: World) -> Row:
    """Clients and server together, every time from the end of the first task."""
    check_equal(name, world)
    method, state, memories = first_task(world)
    second = begun(world, state, memories[0])

    def harness() -> float:
        meter = Meter()
        learn_task(world, method, state, 1, deepcopy(memories), meter)
        return meter.client_seconds + meter.server_seconds

    seconds, reference = best(REPEATS, harness, lambda: by_hand(name, second))
    samples, features = second.inputs.shape
    how = f"5 epochs of a head over {samples:,} x {features} features, batch 128, then what is kept; one thread"
    return Row(f"{name}, second task / plain PyTorch", f"{how}; best of {REPEATS}", seconds, "s", reference, limit=1.2)


def first_task(world: World) -> tuple[Method, Any, dict[int, dict[str, Any]]]:
    """A method, and what server and clients know after one task."""
    method, memories = world.method(), dict[int, dict[str, Any]]()
    return method, learn_task(world, method, method.init(), 0, memories, Meter()), memories


def begun(world: World, state: Any, memory: dict[str, Any]) -> Second:
    """The second task as tensors in memory."""
    indices = world.stream.indices(1, 0)
    labels = torch.from_numpy(world.stream.number[world.dataset.train.labels[indices]])
    settings: Any = OmegaConf.to_container(world.config.method, resolve=True)
    classes = world.stream.tasks[1].seen
    return Second(SimpleNamespace(**settings), world.config.seed, world.train[indices], labels, classes, state, memory)


def by_hand(name: str, second: Second) -> tuple[Tensor, ...]:
    reference, _ = METHODS[name]
    return reference(second)


def check_equal(name: str, world: World) -> None:
    """Times may be compared only where results are the same."""
    method, state, memories = first_task(world)
    expected = by_hand(name, begun(world, state, dict(memories[0])))
    state = learn_task(world, method, state, 1, memories, Meter())
    _, learned = METHODS[name]
    found = *(weights_of(state)[part] for part in HEAD), *learned(state, memories[0])
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
