"""From runs to tables: only comparable runs share a table, only runs of equal settings share a row."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.leaderboard.runs import Run, Settings
from fcl_bench.leaderboard.statistics import Comparison, Score, compared, holm, score

T = TypeVar("T")
HEADING = ("dataset", "backbone", "track", "stream", "partition", "protocol")  # conditions every heading names

NETWORK = ("backbone.weights", "backbone.input_size")
FEDERATION = {"federation.participation": 1, "federation.dropout": 0, "federation.arrival": "ordered"}  # as usual
USUAL = ("dataset", "tasks", "alpha")  # conditions that a reader looks for first


@dataclass(frozen=True)
class Row:
    """A method with one choice of its settings."""

    name: str  # with the settings in which it differs from other rows of its method
    runs: tuple[Run, ...]  # one per draw, by seed
    scores: dict[str, Score]  # by metric, in the units of the record
    comparison: Comparison | None  # with the best row; None for the best itself and for an oracle

    @property
    def method(self) -> str:
        """The method's name alone."""
        return self.runs[0].method

    @property
    def facts(self) -> tuple[str, ...]:
        """What the method declares about itself."""
        return tuple(name for name, value in self.runs[0].result["facts"].items() if value)


@dataclass(frozen=True)
class Board:
    """The table of one group of comparable runs."""

    heading: str
    conditions: Settings
    sort: str  # the metric of the order and of the comparison with the best
    rows: tuple[Row, ...]  # the best first

    @property
    def stream(self) -> str:
        """The settings of the stream, of the frozen network's inputs, and of a federation that is not the usual one."""
        shown = {key: value for key, value in self.conditions.items() if key not in HEADING and "." not in key}
        shown |= {key: self.conditions[key] for key in NETWORK if key in self.conditions}
        shown |= {key: value for key, value in self.conditions.items() if FEDERATION.get(key, value) != value}
        return ", ".join(f"{key} {text(value)}" for key, value in shown.items() if value is not None)

    @property
    def uneven(self) -> bool:
        """Whether the rows have seen different seeds or streams."""
        return len({frozenset(run.draw for run in row.runs) for row in self.rows}) > 1

    @property
    def ranked(self) -> list[Row]:
        """The competitors, best first: neither oracles nor rows for which the metric is undefined."""
        return [row for row in self.rows if "oracle" not in row.facts and row.scores[self.sort].mean is not None]


def boards(runs: Iterable[Run], sort: str = "average_accuracy") -> tuple[Board, ...]:
    """One table per group of comparable runs, each with its best row first."""
    groups = _grouped(runs, lambda run: _key(run.conditions))
    named = _named([(_heading(group[0].conditions), group[0].conditions, group) for group in groups], mark=": ")
    names = row_names([run for group in groups for run in group])
    made = (_compared(Board(name, group[0].conditions, sort, rows(group, names, sort))) for name, group in named)
    return tuple(sorted(made, key=lambda board: _natural(board.heading)))


def row_names(runs: Sequence[Run]) -> dict[str, str]:
    """For every method and choice of its settings one name, in all tables; by :func:`_row_key`."""
    groups = _grouped(runs, _row_key)
    named = _named([(group[0].method, group[0].settings, group) for group in groups], mark=" ")
    return {_row_key(group[0]): name for name, group in named}


def contradictions(runs: Sequence[Run]) -> list[str]:
    """A sentence for every two records of the same run that do not say the same; the first one counts."""
    found = []
    for first, *others in _grouped(runs, lambda run: (_key(run.conditions), _row_key(run), run.draw)):
        for other in others:
            if (first.result["matrix"], first.result.get("inputs")) != (
                other.result["matrix"],
                other.result.get("inputs"),
            ):
                found.append(
                    f"Two records of the same run differ, {first.path} and {other.path}: the first one counts."
                )
    return found


def rows(runs: Sequence[Run], names: dict[str, str], sort: str) -> tuple[Row, ...]:
    """One row per method and choice of settings, the best first; a run that was found twice counts once."""
    groups = _grouped(runs, _row_key)
    made = [_row(names[_row_key(group[0])], {run.draw: run for run in reversed(group)}.values()) for group in groups]
    sign = 1 if COLUMNS[sort].lower_is_better else -1

    def rank(row: Row) -> tuple[bool, float, str]:
        mean = row.scores[sort].mean
        return mean is None, sign * (mean or 0.0), row.name

    return tuple(sorted(made, key=rank))


def differences(several: Sequence[Settings]) -> list[Settings]:
    """Of each, the settings in which they are not all equal.

    >>> differences([{"lr": 1, "rounds": 5}, {"lr": 2, "rounds": 5}, {"lr": 1, "rounds": 5, "keep": 0}])
    [{'lr': 1}, {'lr': 2}, {'lr': 1, 'keep': 0}]
    """
    texts: dict[str, set[str]] = {}
    for settings in several:
        for key, value in settings.items():
            texts.setdefault(key, set()).add(json.dumps(value, sort_keys=True))
    common = {key for key, found in texts.items() if len(found) == 1 and all(key in other for other in several)}
    return [{key: value for key, value in settings.items() if key not in common} for settings in several]


def telling(boards: Sequence[Board]) -> list[str]:
    """The conditions that tell tables apart: data set, tasks and alpha in any case, others only where it takes them."""
    keys = [key for key in USUAL if all(key in board.conditions for board in boards)]
    for key in dict.fromkeys([*HEADING, *(key for board in boards for key in board.conditions)]):
        told = {tuple(text(board.conditions.get(known)) for known in keys) for board in boards}
        values = {text(board.conditions.get(key)) for board in boards}
        if len(told) < len(boards) and len(values) > 1 and key not in keys:
            keys.append(key)
    return keys


def by_mean(boards: Sequence[Board], oracles: bool) -> list[str]:
    """The names of the rows of all tables, either oracles or the others, by their mean over the tables, the best first.

    Rows that are not in all tables come after those that are.
    """
    found: dict[str, list[float]] = {}
    for board in boards:
        for row in board.rows:
            mean = row.scores[board.sort].mean
            if ("oracle" in row.facts) == oracles and mean is not None:
                found.setdefault(row.name, []).append(mean)
    sign = 1 if COLUMNS[boards[0].sort].lower_is_better else -1
    return sorted(found, key=lambda name: (-len(found[name]), sign * fmean(found[name]), name))


def told_apart(boards: Sequence[Board], shortly: bool = False) -> list[str]:
    """A title for each table: the conditions that tell them apart; ``shortly`` without those that all share."""
    keys = telling(boards)
    if shortly and len(boards) > 1:
        keys = [key for key in keys if len({text(board.conditions.get(key)) for board in boards}) > 1]
    return [", ".join(_worded(key, board.conditions.get(key)) for key in keys) for board in boards]


def _worded(key: str, value: object) -> str:
    return text(value) if key == "dataset" else f"{key} {text(value)}"


def text(value: object) -> str:
    """A setting as it is written on the command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _row(name: str, runs: Iterable[Run]) -> Row:
    ordered = tuple(sorted(runs, key=lambda run: (run.result["seed"], run.draw)))
    return Row(name, ordered, {key: score([run.values[key] for run in ordered]) for key in COLUMNS}, None)


def _compared(board: Board) -> Board:
    """Every competitor beside the best one."""
    if not board.ranked:
        return board
    best, *others = board.ranked
    found = [compared(_values(row, board.sort), _values(best, board.sort)) for row in others]
    corrected = holm([comparison.p for comparison in found])
    beside = {
        row.name: replace(comparison, p_holm=p) for row, comparison, p in zip(others, found, corrected, strict=True)
    }
    return replace(board, rows=tuple(replace(row, comparison=beside.get(row.name)) for row in board.rows))


def _values(row: Row, metric: str) -> dict[str, float | None]:
    return {run.draw: run.values[metric] for run in row.runs}


def _named(groups: Sequence[tuple[str, Settings, list[Run]]], mark: str) -> list[tuple[str, list[Run]]]:
    """Groups by their names, each made unique by the settings in which groups of one name differ."""
    found = []
    for alike in _grouped(groups, lambda group: group[0]):
        for (name, _, runs), own in zip(alike, differences([settings for _, settings, _ in alike]), strict=True):
            words = " ".join(f"{key}={text(value)}" for key, value in own.items())
            found.append((f"{name}{mark}{words}" if words else name, runs))
    return found


def _heading(conditions: Settings) -> str:
    dataset, backbone, track, stream, partition, protocol = (conditions[key] for key in HEADING)
    return f"{dataset}, {backbone} ({track}), {stream} x {partition}" + (f", protocol {protocol}" if protocol else "")


def _natural(words: str) -> list[str | float]:
    """By this, numbers in a text are ordered as numbers.

    >>> sorted(["tasks=10", "tasks=5", "tasks=5 alpha=0.2"], key=_natural)
    ['tasks=5', 'tasks=5 alpha=0.2', 'tasks=10']
    """
    parts = re.split(r"(\d+(?:\.\d+)?)", words)
    return [float(part) if index % 2 else part for index, part in enumerate(parts)]


def _row_key(run: Run) -> str:
    return f"{run.method} {_key(run.settings)}"


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of equal key together, in order of first appearance."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())
