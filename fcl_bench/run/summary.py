"""From what a run has gathered to the content of ``result.json``."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from fcl_bench.config.run_id import method_name, run_id
from fcl_bench.run.environment import environment
from fcl_bench.run.metrics import accuracy_matrix, curves
from fcl_bench.run.result import SCHEMA, Result
from fcl_bench.stream import Stream

TRAFFIC = ("uplink_bytes", "downlink_bytes", "exchanges")
SECONDS = {"client": "client_seconds", "server": "server_seconds", "total": "runtime_seconds"}


@dataclass(frozen=True)
class Checkpoint:
    """All that a run has gathered after its last finished task, and all it needs to go on."""

    state: Any
    memories: dict[int, Any]  # what clients keep, by client
    predictions: Tensor  # (finished tasks, test samples), original labels
    costs: tuple[dict[str, float], ...]  # traffic, seconds and memory after each finished task
    others: dict[str, Tensor]  # predictions of a method's other classifiers, by name


def summarise(
    config: DictConfig, facts: dict[str, bool], stream: Stream, targets: np.ndarray, checkpoint: Checkpoint
) -> Result:
    """Every metric after every finished task; ``facts`` are what the method declares about itself."""
    scores = _scores(checkpoint.predictions, stream, targets)
    values = scores["curves"]
    for name in checkpoint.costs[0] if checkpoint.costs else ():
        values[name] = [cost[name] for cost in checkpoint.costs]
    last = _last(values)
    return {
        "schema": SCHEMA,
        "run_id": run_id(config),
        "method": method_name(config),
        "dataset": config.dataset.name,
        "backbone": config.backbone.name,
        "seed": config.seed,
        "protocol": config.protocol,
        "track": "end_to_end" if config.backbone.trainable else "frozen",
        "facts": facts,
        "stream": {**stream.parameters, "hash": stream.hash},
        "metrics": last,
        "curves": values,
        "matrix": scores["matrix"],
        "other_classifiers": {
            name: found | {"metrics": _last(found["curves"])}
            for name, predictions in checkpoint.others.items()
            if (found := _scores(predictions, stream, targets))
        },
        "traffic": {name: last.get(name, 0) for name in TRAFFIC},
        "seconds": {name: last.get(key, 0.0) for name, key in SECONDS.items()},
        "environment": environment(),
        "config": OmegaConf.to_container(config, resolve=True),
    }


def _scores(predictions: Tensor, stream: Stream, targets: np.ndarray) -> dict[str, Any]:
    """Curves and matrix of a classifier."""
    task_of, rows = test_tasks(stream, len(targets)), predictions.numpy()
    registered_in = np.array([*first_tasks(stream), len(stream.tasks)])  # the last entry: never
    found = curves(rows, targets, task_of, since=registered_in[stream.number[targets]])
    matrix = [_plain(row) for row in accuracy_matrix(rows, targets, task_of)]
    return {"curves": {name: _plain(curve) for name, curve in found.items()}, "matrix": matrix}


def _last(values: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: curve[-1] if curve else None for name, curve in values.items()}


def test_tasks(stream: Stream, samples: int) -> np.ndarray:
    """The task each test sample belongs to, -1 for none."""
    task_of = np.full(samples, -1)
    for task in stream.tasks:
        task_of[stream.test_indices(task.index)] = task.index
    return task_of


def first_tasks(stream: Stream) -> list[int]:
    """The task in which each registered class was registered."""
    return [task.index for task in stream.tasks for _ in task.new]


def _plain(values: np.ndarray) -> list[float | None]:
    """JSON has no NaN: what is undefined is null."""
    return [None if math.isnan(value) else float(value) for value in values]
