"""The header of a run: what is about to happen, what it will cost, and with how many threads."""

import math
import os
import time
from typing import TYPE_CHECKING, Any

from fcl_bench.config.nested import plain
from fcl_bench.config.run_id import method_name
from fcl_bench.config.settings_node import SettingsNode

if TYPE_CHECKING:  # a finished run is shown without torch
    from fcl_bench.learning import Progress
    from fcl_bench.run.scenario import Scenario

MINUTE = 60.0  # the load average is taken over the last one
_STARTED = time.monotonic()


def header(scenario: "Scenario", method: Any, progress: "Progress") -> dict[str, str]:
    """A name and a line for each thing worth knowing."""
    tasks = len(scenario.stream.tasks)
    rows = {
        "method": method_name(scenario.config),
        "data set": _data_set(scenario),
        "backbone": _backbone(scenario),
        "stream": _stream(scenario),
        "cost": _cost(scenario, method),
        "threads": _threads(),
    }
    settings = scenario.config.get("settings")
    if settings is not None:
        rows["settings"] = SettingsNode(**plain(settings)).sentence
    if progress.task or progress.yielded:
        rows["resumed"] = _resumed(progress, tasks)
    return rows


def _resumed(progress: "Progress", tasks: int) -> str:
    if progress.between_tasks:
        return f"after task {progress.task} of {tasks}"
    return f"after task {progress.task} of {tasks}, round {progress.yielded} of the next"


def rounds_per_task(scenario: "Scenario", method: Any) -> int:
    """How many models the method will hand out in each task, as far as its settings tell."""
    return getattr(method, "rounds", scenario.config.method.get("rounds", 1))


def _data_set(scenario: "Scenario") -> str:
    classes = len(scenario.dataset.classes)
    return (
        f"{scenario.config.dataset.name}, {classes} classes, {len(scenario.train):,} + {len(scenario.test):,} samples"
    )


def _backbone(scenario: "Scenario") -> str:
    training = "trained end to end" if scenario.backbone.trainable else "frozen"
    inputs = "x".join(str(side) for side in scenario.train.shape[1:])
    return f"{scenario.config.backbone.name}, {training}, inputs {inputs}"


def _stream(scenario: "Scenario") -> str:
    stream = scenario.stream
    parameters = ", ".join(f"{key} {value}" for key, value in stream.parameters.items() if key != "name")
    return f"{stream.parameters['name']} ({parameters}), hash {stream.hash[:8]}"


def _cost(scenario: "Scenario", method: Any) -> str:
    rounds = rounds_per_task(scenario, method)
    epochs = getattr(method, "epochs", scenario.config.method.get("epochs", 1))
    visits = len(scenario.train) * rounds * epochs
    size = f"{len(scenario.stream.tasks)} tasks x {scenario.stream.clients} clients"
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
