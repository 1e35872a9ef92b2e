"""From what a run has gathered to the content of ``result.json``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from fcl_bench.config.compose import build
from fcl_bench.config.run_id import method_name, run_id
from fcl_bench.run.checkpoint import Checkpoint
from fcl_bench.run.environment import environment
from fcl_bench.run.metrics import accuracy_curves, accuracy_matrix, curves
from fcl_bench.run.report import report
from fcl_bench.run.result import SCHEMA, VIEWS, Result
from fcl_bench.run.views import memberships, registered_in
from fcl_bench.stream import Stream

TRAFFIC = ("uplink_bytes", "downlink_bytes", "exchanges")
SECONDS = {"client": "client_seconds", "server": "server_seconds", "total": "runtime_seconds"}


@dataclass(frozen=True)
class HeldOut:
    """The test samples, and where they belong."""

    targets: np.ndarray
    since: np.ndarray  # the task in which the class of a sample was registered
    views: dict[str, np.ndarray]  # which samples (columns) are in the test of which task (rows)


def summarise(
    config: DictConfig,
    facts: dict[str, bool],
    stream: Stream,
    targets: np.ndarray,
    checkpoint: Checkpoint,
    complete: bool,
) -> Result:
    """Every metric after every finished task; ``facts`` are what the method declares about itself.

    What torchmetrics computes comes when the run is ``complete``.
    """
    tests = HeldOut(targets, registered_in(stream, targets), memberships(stream, targets))
    scores = _scores(checkpoint.predictions, checkpoint.confidences, tests, complete)
    values = scores["curves"]
    for name in checkpoint.costs[0] if checkpoint.costs else ():
        values[name] = [cost[name] for cost in checkpoint.costs]
    if checkpoint.personal:
        values["personal_accuracy"] = [_mean(accuracies) for accuracies in checkpoint.personal]
    last = _last(values)
    privacy = build(config.privacy).facts()
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
        "views": scores["views"],
        "other_classifiers": {
            name: _scores(predictions, checkpoint.other_confidences[name], tests, complete)
            for name, predictions in checkpoint.others.items()
        },
        **({"personal_accuracies": checkpoint.personal} if checkpoint.personal else {}),
        **({"evidence": checkpoint.evidence} if checkpoint.evidence else {}),
        **({"privacy": privacy} if privacy else {}),
        "traffic": {name: last.get(name, 0) for name in TRAFFIC},
        "seconds": {name: last.get(key, 0.0) for name, key in SECONDS.items()},
        "environment": environment(config.method["_target_"]),
        "config": OmegaConf.to_container(config, resolve=True),
    }


def _scores(predictions: Tensor, confidences: Tensor, tests: HeldOut, complete: bool) -> dict[str, Any]:
    """Matrix, curves and metrics of a classifier in the headline's view, and under ``views`` those in the others."""
    rows = predictions.numpy()
    found = {view: _in_view(rows, tests.targets, members) for view, members in tests.views.items()}
    headline = found.pop(VIEWS[0])
    values = headline["curves"]
    for name, curve in accuracy_curves(rows, tests.targets, tests.since).items():
        values[name] = _plain(curve)
    if complete:
        values |= report(predictions, confidences, tests.targets, tests.since)
    return {"curves": values, "metrics": _last(values), "matrix": headline["matrix"], "views": found}


def _in_view(rows: np.ndarray, targets: np.ndarray, members: np.ndarray) -> dict[str, Any]:
    matrix = accuracy_matrix(rows, targets, members)
    values = {name: _plain(curve) for name, curve in curves(matrix).items()}
    return {"curves": values, "metrics": _last(values), "matrix": [_plain(row) for row in matrix]}


def _last(values: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: curve[-1] if curve else None for name, curve in values.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _plain(values: np.ndarray) -> list[float | None]:
    """JSON has no NaN: what is undefined is null."""
    return [None if math.isnan(value) else float(value) for value in values]
