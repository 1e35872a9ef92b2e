"""The accuracies of a record computed once more, from the predictions and the manifest that lie beside it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fcl_bench.errors import UserError
from fcl_bench.registration import Task, register
from fcl_bench.run.consistency import agree
from fcl_bench.run.digests import (
    PREDICTIONS,
    REMEDY,
    SAMPLES,
    STREAM,
    Arrays,
    check_beside,
    digest_of_arrays,
    digest_of_json,
    read_arrays,
)
from fcl_bench.run.metrics import accuracy_curves, accuracy_matrix
from fcl_bench.run.result import VIEWS, Result
from fcl_bench.run.views import memberships, registered_in
from fcl_bench.strict_json import read_json

NOT_A_MANIFEST = (LookupError, TypeError, ValueError, OverflowError, AttributeError)


@dataclass(frozen=True)
class SavedStream:
    """What the tests of tasks follow from, without the training labels that a stream is made of."""

    tasks: tuple[Task, ...]
    order: np.ndarray
    number: np.ndarray
    counts: np.ndarray
    tests: list[np.ndarray]  # of each task

    def test_indices(self, task: int) -> np.ndarray:
        """Test indices of one task."""
        return self.tests[task]


def contradictions_beside(result: Result, path: Path) -> Iterator[str]:
    """What does not follow from the files beside the record at ``path``, as clauses; digests are checked on the way."""
    summary = _summary(result, path)
    if summary is not None:
        yield from _of_summary(result, summary)
    if not has_predictions(path):
        return
    arrays = read_arrays(path.with_name(PREDICTIONS))
    check_beside(result, PREDICTIONS, digest_of_arrays(arrays), path)
    dealt = _dealt(result, path)
    if summary is None or dealt is None:
        return
    try:
        yield from _of_predictions(result, arrays, _saved_stream(summary, dealt))
    except NOT_A_MANIFEST as error:
        yield f"{PREDICTIONS} and the stream beside it do not fit together: {type(error).__name__}, {error}"


def _of_summary(result: Result, summary: Mapping[str, Any]) -> Iterator[str]:
    """The manifest beside a record is its own, and its tests of tasks give the accuracy on all test samples."""
    if summary["hash"] != result["stream"]["hash"]:
        yield f"{STREAM} beside it is that of another stream"
        return
    parameters = {name: value for name, value in result["stream"].items() if name != "hash"}
    if summary.get("parameters", parameters) != parameters:
        yield f"{STREAM} beside it has other parameters"
    try:
        sizes = np.array(summary["test_sizes"], dtype=float)
        right = np.nansum(np.array(result["matrix"], dtype=float) * sizes, axis=1)
        whole = right / np.sum(summary["histogram"][1])
    except NOT_A_MANIFEST as error:
        yield f"{STREAM} beside it does not fit: {type(error).__name__}, {error}"
        return
    if "whole_accuracy" in result["curves"] and not agree(whole.tolist(), result["curves"]["whole_accuracy"]):
        yield "the curve of whole_accuracy does not follow from the matrix"


def has_predictions(path: Path) -> bool:
    """Whether the record came with what its accuracies follow from."""
    return all(path.with_name(name).exists() for name in (PREDICTIONS, STREAM, SAMPLES))


def _summary(result: Result, path: Path) -> dict[str, Any] | None:
    place = path.with_name(STREAM)
    if not place.exists():
        return None
    try:
        summary = read_json(place)
    except (OSError, ValueError) as error:
        raise UserError(f"The stream {place} cannot be read ({error}): {REMEDY}") from error
    if not isinstance(summary, dict) or "hash" not in summary:
        raise UserError(f"The stream {place} is damaged (there is no hash): {REMEDY}")
    check_beside(result, STREAM, digest_of_json(summary), path)
    return summary


def _dealt(result: Result, path: Path) -> Arrays | None:
    place = path.with_name(SAMPLES)
    if not place.exists():
        return None
    arrays = read_arrays(place)
    check_beside(result, SAMPLES, digest_of_arrays(arrays), path)
    return arrays


def _saved_stream(summary: Mapping[str, Any], dealt: Arrays) -> SavedStream:
    order = dealt["order"]
    counts = np.array(summary["counts"], dtype=np.int64).reshape(-1, 4)
    held: list[list[list[int]]] = [[[] for _ in sizes] for sizes in dealt["sizes"]]
    for task, client, number, _ in counts:
        held[task][client].append(int(order[number]))
    tasks, registered = register([[sorted(labels) for labels in clients] for clients in held])
    if list(registered) != order.tolist():
        raise ValueError("classes are not in the order of their registration")
    number = np.full(dealt["histogram"].shape[1], -1)
    number[order] = np.arange(len(order))
    tests = np.split(dealt["test"], dealt["test_sizes"].cumsum()[:-1])
    return SavedStream(tasks, order, number, counts, tests)


def _of_predictions(result: Result, arrays: Arrays, stream: Any) -> Iterator[str]:
    targets = arrays["targets"]
    members = memberships(stream, targets)
    since = registered_in(stream, targets)
    for name, scores in {"": result, **result.get("other_classifiers", {})}.items():
        rows = arrays[f"predictions_{name}" if name else "predictions"]
        if rows.shape != (len(stream.tasks), len(targets)) or rows.dtype != np.int64:
            raise ValueError(f"there are predictions of shape {rows.shape} and type {rows.dtype}")
        whose = f" (classifier {name})" if name else ""
        for clause in _of_rows(scores, rows, targets, members):
            yield clause + whose
        for metric, curve in accuracy_curves(rows, targets, since).items():
            if metric in scores["curves"] and not agree(curve.tolist(), scores["curves"][metric]):
                yield f"the curve of {metric} does not follow from the predictions beside it{whose}"


def _of_rows(
    scores: Mapping[str, Any], rows: np.ndarray, targets: np.ndarray, members: Mapping[str, np.ndarray]
) -> Iterator[str]:
    """Every matrix that the record has; its curves follow from it."""
    own = {VIEWS[0]: scores, **scores.get("views", {})}
    for view, said in own.items():
        found = accuracy_matrix(rows, targets, members[view])
        if not all(agree(*pair) for pair in zip(found.tolist(), said["matrix"], strict=True)):
            yield f"the matrix of the view {view} does not follow from the predictions beside it"
