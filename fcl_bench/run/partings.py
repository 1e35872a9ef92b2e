"""Where two records part: all that a run computes, in the order in which it came to be."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fcl_bench.config.nested import flattened
from fcl_bench.config.run_id import IRRELEVANT_GROUPS, result_relevant
from fcl_bench.errors import UserError
from fcl_bench.run.digests import PREDICTIONS, REMEDY, Arrays, read_arrays
from fcl_bench.run.result import Result
from fcl_bench.run.saved_state import Leaves, SavedTensor, saved_leaves

CLOCK_AND_MEMORY = ("_seconds", "_mb")  # endings of what differs whenever a run is repeated
LOG = "exchanges.jsonl"
MISSING = "nothing"


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

    @cached_property
    def leaves(self) -> Leaves | None:
        """Of the final state; None without a checkpoint."""
        return saved_leaves(self.path.parent)


def partings(one: Saved, other: Saved) -> Iterator[str]:
    """All places where the two differ, the first one first."""
    yield from _of_settings(one.result, other.result)
    for task in range(len(one.result["matrix"])):
        yield from _of_exchanges(one, other, task)
        yield from _of_predictions(one, other, task)
        yield from _of_scores(one.result, other.result, task)
    for name in ("personal_accuracies", "evidence", "privacy", "forgotten"):
        pair = (one.result.get(name), other.result.get(name))
        if name == "evidence" and None in pair:
            continue  # earlier versions had none
        yield from _of_values(_untimed(pair[0]), _untimed(pair[1]), name)
    if one.leaves is not None and other.leaves is not None:
        yield from _of_states(one.leaves, other.leaves)


def unshared_metrics(one: Result, other: Result) -> list[str]:
    """Metrics that one of the two has: versions differ in what they measure."""
    return sorted(set(one["curves"]) ^ set(other["curves"]))


def _of_settings(one: Result, other: Result) -> Iterator[str]:
    settings = [_relevant(result["config"]) for result in (one, other)]
    for name in dict.fromkeys([*settings[0], *settings[1]]):
        pair = [own.get(name, MISSING) for own in settings]
        if pair[0] != pair[1]:
            yield f"they have other settings, {name} is {pair[0]} in the first and {pair[1]} in the second"
    if one.get("inputs") != other.get("inputs"):
        yield "the contents of their data set, weights or stream differ (inputs)"
    if one["stream"]["hash"] != other["stream"]["hash"]:
        yield "their streams differ (stream.hash)"


def _relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    content = {name: value for name, value in config.items() if name not in IRRELEVANT_GROUPS}
    return flattened(result_relevant(content))


def _of_exchanges(one: Saved, other: Saved, task: int) -> Iterator[str]:
    if one.exchanges is None or other.exchanges is None:
        return
    pair = [[line for line in log if line.get("task") == task] for log in (one.exchanges, other.exchanges)]
    for number, lines in enumerate(zip(*pair, strict=False), start=1):
        function = lines[0].get("function")
        place = f"task {task + 1}, exchange {number} ({function})"
        yield from _of_values(_untimed(lines[0]), _untimed(lines[1]), place)
    if len(pair[0]) != len(pair[1]):
        yield f"task {task + 1} has {len(pair[0])} exchanges in the first and {len(pair[1])} in the second"


def _of_predictions(one: Saved, other: Saved, task: int) -> Iterator[str]:
    if one.predictions is None or other.predictions is None:
        return
    if list(one.predictions) != list(other.predictions):
        yield f"they have other arrays in {PREDICTIONS}"
        return
    for name, first in one.predictions.items():
        second = other.predictions[name]
        if name != "targets":
            first, second = first[task : task + 1], second[task : task + 1]
        if first.dtype != second.dtype or first.shape != second.shape:
            yield f"{name} after task {task + 1}: their types or shapes differ"
        elif first.tobytes() != second.tobytes():
            differ = f"{int((first != second).sum()):,} of {first.size:,}"
            yield f"{name} after task {task + 1} differ for {differ} test samples{_by(first, second)}"


def _of_scores(one: Result, other: Result, task: int) -> Iterator[str]:
    for name, curve in one["curves"].items():
        if name in other["curves"] and not name.endswith(CLOCK_AND_MEMORY):
            yield from _of_values(curve[task], other["curves"][name][task], f"after task {task + 1}, {name}")
    for name in ("matrix", "views", "other_classifiers"):
        yield from _of_values(_of_task(one.get(name), task), _of_task(other.get(name), task), f"after task {task + 1}")


def _of_task(value: Any, task: int) -> Any:
    """Of matrices and curves, at any depth, what belongs to the task; anything else as it is."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key != "metrics"}
        return {key: _of_task(each, task) for key, each in kept.items()}
    if isinstance(value, list):
        return value[task] if task < len(value) else MISSING
    return MISSING if value is None else value


def _of_values(one: Any, other: Any, place: str) -> Iterator[str]:
    """The first leaf of two pieces of JSON that is not equal, to the bit and in type."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _of_values(one.get(key, MISSING), other.get(key, MISSING), f"{place}, {key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True), start=1):
            yield from _of_values(pair[0], pair[1], f"{place}, {number}")
    elif json.dumps(one) != json.dumps(other):
        yield f"{place} is {_short(one)} in the first and {_short(other)} in the second"


def _of_states(one: Leaves, other: Leaves) -> Iterator[str]:
    for name in dict.fromkeys([*one, *other]):
        first, second = one.get(name, MISSING), other.get(name, MISSING)
        if first == second or repr(first) == repr(second):  # NaN is not equal to itself
            continue
        if not (isinstance(first, SavedTensor) and isinstance(second, SavedTensor)):
            yield f"in the final state, {name} is {_short(first)} in the first and {_short(second)} in the second"
        elif (first.kind, first.shape) != (second.kind, second.shape):
            yield f"in the final state, {name} has another type or shape"
        else:
            yield f"in the final state, {name} differs{_by(first.numbers(), second.numbers())}"


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
