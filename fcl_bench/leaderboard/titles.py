"""What tables and rows are called: by the settings in which they differ."""

import json
import re
from collections.abc import Sequence
from typing import Protocol

from fcl_bench.leaderboard.runs import Settings

HEADING = ("dataset", "backbone", "track", "stream", "partition", "protocol")  # conditions every heading names
USUAL = ("dataset", "tasks", "alpha")  # conditions that a reader looks for first


class Table(Protocol):
    """What has conditions."""

    @property
    def conditions(self) -> Settings:
        """All that the runs of the table share."""
        ...


def text(value: object) -> str:
    """A setting as it is written on the command line."""
    return value if isinstance(value, str) else json.dumps(value)


def words(settings: Settings) -> str:
    """Settings as they are written on the command line.

    >>> words({"lr": 0.1, "keep": True})
    'lr=0.1 keep=true'
    """
    return " ".join(f"{key}={text(value)}" for key, value in settings.items())


def heading(conditions: Settings) -> str:
    """The conditions that every heading names."""
    dataset, backbone, track, stream, partition, protocol = (conditions[key] for key in HEADING)
    suffix = f", protocol {protocol}" if protocol else ""
    return f"{dataset}, {backbone} ({track}), {stream} x {partition}{suffix}"


def unique_names(groups: Sequence[tuple[str, Settings]], mark: str) -> list[str]:
    """The name of each group; groups of equal names also have the settings in which these groups differ.

    >>> unique_names([("a", {"lr": 1}), ("b", {"lr": 1}), ("a", {"lr": 2})], mark=": ")
    ['a: lr=1', 'b', 'a: lr=2']
    """
    by_name: dict[str, list[Settings]] = {}
    for name, settings in groups:
        by_name.setdefault(name, []).append(settings)
    own = {name: iter(differences(several)) for name, several in by_name.items()}
    names = []
    for name, _ in groups:
        suffix = words(next(own[name]))
        names.append(f"{name}{mark}{suffix}" if suffix else name)
    return names


def differences(several: Sequence[Settings]) -> list[Settings]:
    """For each of several settings, those values that are not equal in all of them.

    >>> differences([{"lr": 1, "rounds": 5}, {"lr": 2, "rounds": 5}, {"lr": 1, "rounds": 5, "keep": 0}])
    [{'lr': 1}, {'lr': 2}, {'lr': 1, 'keep': 0}]
    """
    values: dict[str, list[str]] = {}
    for settings in several:
        for key, value in settings.items():
            values.setdefault(key, []).append(json.dumps(value, sort_keys=True))
    common = {key for key, texts in values.items() if len(texts) == len(several) and len(set(texts)) == 1}
    return [{key: value for key, value in settings.items() if key not in common} for settings in several]


def distinguishing_keys(tables: Sequence[Table]) -> list[str]:
    """The conditions that tell tables apart: data set, tasks and alpha always, others only where they are needed."""
    keys = [key for key in USUAL if all(key in table.conditions for table in tables)]
    candidates = dict.fromkeys(HEADING)
    for table in tables:
        candidates |= dict.fromkeys(table.conditions)
    for key in candidates:
        if len({_values(table, keys) for table in tables}) == len(tables):
            break
        if key not in keys and _varies(tables, key):
            keys.append(key)
    return keys


def told_apart(tables: Sequence[Table], shortly: bool = False) -> list[str]:
    """A title for each table: the conditions that tell them apart; ``shortly`` without those that all share."""
    keys = distinguishing_keys(tables)
    if shortly and len(tables) > 1:
        keys = [key for key in keys if _varies(tables, key)]
    return [", ".join(_condition(key, table) for key in keys) for table in tables]


def natural(title: str) -> list[str | float]:
    """A key for sorting that orders the numbers in a text by value.

    >>> sorted(["tasks=10", "tasks=5", "tasks=5 alpha=0.2"], key=natural)
    ['tasks=5', 'tasks=5 alpha=0.2', 'tasks=10']
    """
    parts = re.split(r"(\d+(?:\.\d+)?)", title)
    return [float(part) if index % 2 else part for index, part in enumerate(parts)]


def _condition(key: str, table: Table) -> str:
    value = text(table.conditions.get(key))
    return value if key == "dataset" else f"{key} {value}"


def _values(table: Table, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(text(table.conditions.get(key)) for key in keys)


def _varies(tables: Sequence[Table], key: str) -> bool:
    return len({_values(table, [key]) for table in tables}) > 1
