"""The header of a run: what is about to happen, what it will cost, and with how many threads."""

import math
import os
import time
from typing import TYPE_CHECKING, Any

from fcl_bench.config.compose import method_name

if TYPE_CHECKING:  # a finished run is shown without torch
    from fcl_bench.run.scenario import World

MINUTE = 60.0  # the load average is taken over the last one
_STARTED = time.monotonic()


def header(world: "World", method: Any, tasks_done: int) -> dict[str, str]:
    """A name and a line for each thing worth knowing."""
    tasks = len(world.stream.tasks)
    rows = {
        "method": method_name(world.config),
        "data set": _data_set(world),
        "backbone": _backbone(world),
        "stream": _stream(world),
        "cost": _cost(world, method),
        "threads": _threads(),
    }
    if tasks_done:
        rows["resumed"] = f"after task {tasks_done} of {tasks}"
    return rows


def rounds_per_task(world: "World", method: Any) -> int:
    """How many models the method will hand out in each task, as far as its settings tell."""
    return getattr(method, "rounds", world.config.method.get("rounds", 1))


def _data_set(world: "World") -> str:
    classes = len(world.dataset.classes)
    return f"{world.config.dataset.name}, {classes} classes, {len(world.train):,} + {len(world.test):,} samples"


def _backbone(world: "World") -> str:
    training = "trained end to end" if world.backbone.trainable else "frozen"
    inputs = "x".join(str(side) for side in world.train.shape[1:])
    return f"{world.config.backbone.name}, {training}, inputs {inputs}"


def _stream(world: "World") -> str:
    stream = world.stream
    parameters = ", ".join(f"{key} {value}" for key, value in stream.parameters.items() if key != "name")
    return f"{stream.parameters['name']} ({parameters}), hash {stream.hash[:8]}"


def _cost(world: "World", method: Any) -> str:
    rounds = rounds_per_task(world, method)
    epochs = getattr(method, "epochs", world.config.method.get("epochs", 1))
    visits = len(world.train) * rounds * epochs
    size = f"{len(world.stream.tasks)} tasks x {world.stream.clients} clients"
    return f"{size}, rounds per task {rounds}, {visits:,} sample visits"


def _threads() -> str:
    import torch

    threads = torch.get_num_threads()
    if threads > 1 and _load_of_others() + threads > (os.cpu_count() or 1) + 0.5:
        return f"{threads}, but other programs keep the cores busy: OMP_NUM_THREADS=1 may be much faster"
    return str(threads)


def _load_of_others() -> float:
    """How many cores other programs use, on average over the last minute; 0 where the system does not tell."""
    if not hasattr(os, "getloadavg"):  # Windows
        return 0.0
    lifetime = time.monotonic() - _STARTED
    own = time.process_time() / lifetime
    counted = 1 - math.exp(-lifetime / MINUTE)  # the part of it that the average has taken in
    return max(0.0, os.getloadavg()[0] - own * counted)
