"""Where two records part: all that a run computes, in the order in which it came to be."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fcl_bench.config.nested import flattened
from fcl_bench.config.run_id import IRRELEVANT_GROUPS, result_relevant
from fcl_bench.errors import UserError
from fcl_bench.run.digests import KEY, PREDICTIONS, REMEDY, Arrays, read_arrays
from fcl_bench.run.result import Result
from fcl_bench.run.saved_state import Leaves, SavedTensor, saved_leaves

CLOCK_AND_MEMORY = ("_seconds", "_mb")  # endings of what differs whenever a run is repeated
LOG = "exchanges.jsonl"
MISSING = "nothing"
MATRIX = "matrix"
POINTS = (  # what is told in percentage points
    *(MATRIX, "personal_accuracies", "average_accuracy", "stability", "plasticity", "step_stability"),
    *("step_plasticity", "forgetting", "backward_transfer", "seen_accuracy", "whole_accuracy", "anytime_accuracy"),
    *("personal_accuracy", "macro_f1", "calibration_error"),
)
FOLLOWING = (  # what rounding changes by an amount that says little; the accuracies tell how much it matters
    *("retention", "retention_as_printed", "retention_left_out", "statistics", "weights", "predictions"),
)


@dataclass(frozen=True)
class Parting:
    """One place where two records differ."""

    place: str  # the beginning of a sentence; all of it where there are no values
    values: tuple[str, str] | None = None
    points: float = math.inf  # of accuracy that it is worth: 0 is in the accuracies anyway; inf is no rounding

    def sentence(self, one: str = "in the first", other: str = "in the second") -> str:
        """In which both records have a name."""
        if self.values is None:
            return self.place
        return f"{self.place} is {self.values[0]} {one} and {self.values[1]} {other}"


@dataclass(frozen=True)
class Saved:
    """A finished run as its folder has it."""

    path: Path  # of result.json
    result: Result

    @cached_property
    def exchanges(self) -> list[dict[str, Any]] | None:
        """What the log says; None without one."""
        path = self.path.with_name(LOG)
        if not path.exists():
            return None
        try:
            if not path.is_file():
                raise ValueError("it is not a file")
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            return [dict(line) for line in lines]
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise UserError(f"The log {path} cannot be read ({error}): {REMEDY}") from error

    @cached_property
    def predictions(self) -> Arrays | None:
        """After every task; None without the file."""
        path = self.path.with_name(PREDICTIONS)
        return read_arrays(path) if path.exists() else None

    @property
    def digest_of_predictions(self) -> str | None:
        """As the record says it; None in records of earlier versions."""
        found: str | None = self.result.get(KEY, {}).get(PREDICTIONS)
        return found

    @cached_property
    def leaves(self) -> Leaves | None:
        """Of the final state; None without a checkpoint."""
        return saved_leaves(self.path.parent)


def partings(one: Saved, other: Saved) -> Iterator[Parting]:
    """All places where the two differ, the first one first."""
    yield from _of_settings(one.result, other.result)
    for task in range(max(len(each.result["matrix"]) for each in (one, other))):
        yield from _of_exchanges(one, other, task)
        yield from _of_predictions(one, other, task)
        yield from _of_scores(one.result, other.result, task)
    yield from _of_digests(one, other)
    yield from _of_evidence(one.result, other.result)
    for name in ("personal_accuracies", "privacy", "forgotten"):
        pair = (one.result.get(name), other.result.get(name))
        yield from _of_values(_untimed(pair[0]), _untimed(pair[1]), name, name)
    if one.leaves is not None and other.leaves is not None:
        yield from _of_states(one.leaves, other.leaves)


def unshared_metrics(one: Result, other: Result) -> list[str]:
    """Metrics and views that one of the two has."""
    views = set(one.get("views", {})) ^ set(other.get("views", {}))
    return sorted(set(one["curves"]) ^ set(other["curves"])) + [f"view {name}" for name in sorted(views)]


def _of_settings(one: Result, other: Result) -> Iterator[Parting]:
    settings = [_relevant(result["config"]) for result in (one, other)]
    for name in dict.fromkeys([*settings[0], *settings[1]]):
        pair = [own.get(name, MISSING) for own in settings]
        if pair[0] != pair[1]:
            yield Parting(f"they have other settings, {name}", (str(pair[0]), str(pair[1])))
    yield from contents_that_differ(one, other)


def contents_that_differ(one: Result, other: Result) -> Iterator[Parting]:
    """What two runs have computed with: they need to have learned nothing yet."""
    if one.get("inputs") != other.get("inputs"):
        yield Parting("the contents of their data set, weights or stream differ (inputs)")
    if one["stream"]["hash"] != other["stream"]["hash"]:
        yield Parting("their streams differ (stream.hash)")


def _relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    content = {name: value for name, value in config.items() if name not in IRRELEVANT_GROUPS}
    return flattened(result_relevant(content))


def _of_exchanges(one: Saved, other: Saved, task: int) -> Iterator[Parting]:
    if one.exchanges is None or other.exchanges is None:
        return
    pair = [[line for line in log if line.get("task") == task] for log in (one.exchanges, other.exchanges)]
    for number, lines in enumerate(zip(*pair, strict=False), start=1):
        function = lines[0].get("function")
        place = f"task {task + 1}, exchange {number} ({function})"
        yield from _of_values(_untimed(lines[0]), _untimed(lines[1]), place)
    if len(pair[0]) != len(pair[1]):
        yield Parting(f"the number of exchanges of task {task + 1}", (str(len(pair[0])), str(len(pair[1]))))


def _of_predictions(one: Saved, other: Saved, task: int) -> Iterator[Parting]:
    if one.predictions is None or other.predictions is None:
        return
    if list(one.predictions) != list(other.predictions):
        yield Parting(f"they have other arrays in {PREDICTIONS}")
        return
    for name, first in one.predictions.items():
        second = other.predictions[name]
        if name != "targets":
            first, second = first[task : task + 1], second[task : task + 1]
        if first.dtype != second.dtype or first.shape != second.shape:
            yield Parting(f"{name} after task {task + 1}: their types or shapes differ")
        elif first.tobytes() != second.tobytes():
            differ = f"{int((first != second).sum()):,} of {first.size:,}"
            points = math.inf if name == "targets" else 0.0
            sentence = f"{name} after task {task + 1} differ for {differ} test samples{_by(first, second)}"
            yield Parting(sentence, points=points)


def _of_digests(one: Saved, other: Saved) -> Iterator[Parting]:
    """Predictions that were not kept are compared by their digest, where both records have one."""
    pair = (one.digest_of_predictions, other.digest_of_predictions)
    if (one.predictions is None or other.predictions is None) and None not in pair and pair[0] != pair[1]:
        yield Parting("predictions or confidences differ (by the digest of all of them)", points=0.0)


def _of_evidence(one: Result, other: Result) -> Iterator[Parting]:
    """Hashes, which do not tell how far two sums are from each other; but whole numbers are not rounded."""
    if "evidence" not in one or "evidence" not in other:
        return  # earlier versions had none
    pair = (one["evidence"], other["evidence"])
    whole = one["config"]["method"].get("arithmetic") == "integer"
    for name in dict.fromkeys([*pair[0], *pair[1]]):
        values = (pair[0].get(name, MISSING), pair[1].get(name, MISSING))
        rounded = not (whole and name == "statistics")
        yield from _of_values(*values, f"evidence, {name}", name if rounded else "")


def _of_scores(one: Result, other: Result, task: int) -> Iterator[Parting]:
    """The matrix first, as most curves follow from it."""
    rows = [_of_task(result[MATRIX], task) for result in (one, other)]
    yield from _of_values(rows[0], rows[1], f"after task {task + 1}, accuracy on the tests of task", MATRIX)
    for name, curve in one["curves"].items():
        if name in other["curves"] and not name.endswith(CLOCK_AND_MEMORY):
            pair = (_of_task(curve, task), _of_task(other["curves"][name], task))
            yield from _of_values(*pair, f"after task {task + 1}, {name}", name)
    pair = (_further_scores(one, other), _further_scores(other, one))
    yield from _of_values(_of_task(pair[0], task), _of_task(pair[1], task), f"after task {task + 1}")


def _further_scores(own: Result, beside: Result) -> dict[str, Any]:
    """In other views and of other classifiers; those in a view that only one of two records has are left out."""
    views = _shared(own, beside, "views")
    found = {name: _comparable(scores, beside["views"][name]) for name, scores in views.items()}
    others = beside["other_classifiers"]
    for name, scores in own["other_classifiers"].items():
        found[name] = _comparable(scores, others.get(name, {}))
    return found


def _comparable(own: Result, beside: Result) -> dict[str, Any]:
    """The scores of a classifier without curves and views that the other ones do not have."""
    views = _shared(own, beside, "views")
    kept = {name: _comparable(scores, beside["views"][name]) for name, scores in views.items()}
    return {**own, "curves": _shared(own, beside, "curves"), "views": kept}


def _shared(own: Result, beside: Result, part: str) -> dict[str, Any]:
    """Versions differ in what they measure."""
    return {name: value for name, value in own.get(part, {}).items() if name in beside.get(part, {})}


def _of_task(value: Any, task: int) -> Any:
    """Of matrices and curves, at any depth, what belongs to the task; anything else as it is."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key != "metrics"}
        return {key: _of_task(each, task) for key, each in kept.items()}
    if isinstance(value, list):
        return value[task] if task < len(value) else MISSING
    return MISSING if value is None else value


def _of_values(one: Any, other: Any, place: str, name: str = "") -> Iterator[Parting]:
    """Every leaf of two pieces of JSON that is not equal, to the bit and in type; ``name`` is that of the measure."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _of_values(one.get(key, MISSING), other.get(key, MISSING), f"{place}, {key}", key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True), start=1):
            separator = " " if place.endswith("task") else ", "
            yield from _of_values(pair[0], pair[1], f"{place}{separator}{number}", name)
    elif json.dumps(one) != json.dumps(other):
        yield Parting(place, (_short(one), _short(other)), _points(name, one, other))


def _points(name: str, one: Any, other: Any) -> float:
    """What the difference of two values of a measure is worth, see :class:`Parting`."""
    if name in FOLLOWING:
        return 0.0
    numbers = all(isinstance(value, int | float) for value in (one, other))
    return abs(one - other) if name in POINTS and numbers else math.inf


def _of_states(one: Leaves, other: Leaves) -> Iterator[Parting]:
    for name in dict.fromkeys([*one, *other]):
        first, second = one.get(name, MISSING), other.get(name, MISSING)
        if first == second or repr(first) == repr(second):  # NaN is not equal to itself
            continue
        if not (isinstance(first, SavedTensor) and isinstance(second, SavedTensor)):
            yield Parting(f"in the final state, {name}", (_short(first), _short(second)))
        elif (first.kind, first.shape) != (second.kind, second.shape):
            yield Parting(f"in the final state, {name} has another type or shape")
        else:
            points = 0.0 if "F" in first.kind else math.inf  # F64, BF16 and so on: not whole numbers
            sentence = f"in the final state, {name} differs{_by(first.numbers(), second.numbers())}"
            yield Parting(sentence, points=points)


def _by(first: np.ndarray | None, second: np.ndarray | None) -> str:
    """By how much two arrays of numbers differ; labels have no distance."""
    if first is None or second is None or first.dtype.kind != "f":
        return ""
    return f" by up to {np.abs(first.astype(float) - second).max():.1e}"


def _untimed(value: Any) -> Any:
    """Without seconds and memory."""
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if not key.endswith(CLOCK_AND_MEMORY)}


def _short(value: Any) -> str:
    text = f"a tensor of shape {value.shape}" if isinstance(value, SavedTensor) else str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
