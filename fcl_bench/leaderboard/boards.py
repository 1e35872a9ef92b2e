"""From runs to tables: only comparable runs share a table, only runs of equal settings share a row."""

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeVar

from fcl_bench.leaderboard.runs import Run, Settings

T = TypeVar("T")
HEADING = ("dataset", "backbone", "track", "stream", "partition", "protocol")  # conditions every heading names


@dataclass(frozen=True)
class Column:
    """How a number is shown, and which end of it is better."""

    title: str
    lower_is_better: bool = False
    spread: bool = False  # with the standard deviation over seeds


COLUMNS = {
    "average_accuracy": Column("average (%)", spread=True),
    "anytime_accuracy": Column("anytime (%)", spread=True),
    "retention": Column("retention", spread=True),
    "forgetting": Column("forgetting", lower_is_better=True, spread=True),
    "uplink_mb": Column("up (MB)", lower_is_better=True),
    "downlink_mb": Column("down (MB)", lower_is_better=True),
    "stored_mb": Column("stored (MB)", lower_is_better=True),
    "seconds": Column("seconds", lower_is_better=True),
}


@dataclass(frozen=True)
class Score:
    """Mean and sample standard deviation over seeds; None where it is undefined."""

    mean: float | None
    deviation: float | None


@dataclass(frozen=True)
class Row:
    """A method with one choice of its settings."""

    name: str  # with the settings in which it differs from other rows of its method
    seeds: int
    scores: dict[str, Score]  # by column


@dataclass(frozen=True)
class Board:
    """The table of one group of comparable runs."""

    heading: str
    conditions: str  # the settings of the stream
    rows: tuple[Row, ...]


def boards(runs: Iterable[Run], sort: str = "average_accuracy") -> tuple[Board, ...]:
    """One table per group of comparable runs, each with its best row first."""
    groups = _grouped(runs, lambda run: _key(run.conditions))
    named = _named([(_heading(group[0].conditions), group[0].conditions, group) for group in groups], mark=": ")
    made = (Board(name, _stream(group[0].conditions), rows(group, sort)) for name, group in named)
    return tuple(sorted(made, key=lambda board: board.heading))


def rows(runs: Sequence[Run], sort: str = "average_accuracy") -> tuple[Row, ...]:
    """One row per method and choice of settings, the best first; a run that was found twice counts once."""
    groups = _grouped(runs, lambda run: (run.method, _key(run.settings)))
    named = _named([(group[0].method, group[0].settings, group) for group in groups], mark=" ")
    made = [_row(name, list({run.draw: run for run in reversed(group)}.values())) for name, group in named]
    sign = 1 if COLUMNS[sort].lower_is_better else -1

    def rank(row: Row) -> tuple[bool, float, str]:
        mean = row.scores[sort].mean
        return mean is None, sign * (mean or 0.0), row.name

    return tuple(sorted(made, key=rank))


def score(values: Sequence[float | None]) -> Score:
    """Undefined in one run is undefined in the mean.

    >>> score([1.0, 2.0, 6.0]), score([3.0]), score([3.0, None])
    (Score(mean=3.0, deviation=2.6457513110645907), Score(mean=3.0, deviation=None), Score(mean=None, deviation=None))
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Score(None, None)
    return Score(fmean(known), stdev(known) if len(known) > 1 else None)


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


def _row(name: str, runs: Sequence[Run]) -> Row:
    return Row(name, len(runs), {key: score([run.values[key] for run in runs]) for key in COLUMNS})


def _named(groups: Sequence[tuple[str, Settings, list[Run]]], mark: str) -> list[tuple[str, list[Run]]]:
    """Groups by their names, each made unique by the settings in which groups of one name differ."""
    found = []
    for alike in _grouped(groups, lambda group: group[0]):
        for (name, _, runs), own in zip(alike, differences([settings for _, settings, _ in alike]), strict=True):
            words = " ".join(f"{key}={_text(value)}" for key, value in own.items())
            found.append((f"{name}{mark}{words}" if words else name, runs))
    return found


def _heading(conditions: Settings) -> str:
    dataset, backbone, track, stream, partition, protocol = (conditions[key] for key in HEADING)
    return f"{dataset}, {backbone} ({track}), {stream} x {partition}" + (f", protocol {protocol}" if protocol else "")


def _stream(conditions: Settings) -> str:
    """Those of the stream are the ones that neither the heading nor another group of settings names."""
    shown = (key for key in conditions if key not in HEADING and "." not in key and conditions[key] is not None)
    return ", ".join(f"{key} {_text(conditions[key])}" for key in shown)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of equal key together, in order of first appearance."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())
