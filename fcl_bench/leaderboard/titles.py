"""What tables and rows are called: by the settings in which they differ."""

import json
import re
from collections.abc import Collection, Sequence
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
    classes = conditions.get("limit_classes")
    part = "" if classes is None else f"first {classes} classes of "
    title = part + "{dataset}, {backbone} ({track}), {stream} x {partition}".format(**conditions)
    protocol = conditions["protocol"]
    return f"{title}, protocol {protocol}" if protocol else title


def unique_names(names: Sequence[str], settings: Sequence[Settings], mark: str) -> list[str]:
    """The names, of which equal ones become different by the settings that are not equal for all of them.

    >>> unique_names(["a", "b", "a"], [{"lr": 1}, {"lr": 1}, {"lr": 2}], mark=": ")
    ['a: lr=1', 'b', 'a: lr=2']
    """
    by_name: dict[str, list[Settings]] = {}
    for name, own in zip(names, settings, strict=True):
        by_name.setdefault(name, []).append(own)
    left = {name: iter(differences(several)) for name, several in by_name.items()}
    unique = []
    for name in names:
        suffix = words(next(left[name]))
        unique.append(f"{name}{mark}{suffix}" if suffix else name)
    return unique


def differences(several: Sequence[Settings]) -> list[Settings]:
    """For each of several settings, those values that are not equal in all of them.

    >>> differences([{"lr": 1, "rounds": 5}, {"lr": 2, "rounds": 5}, {"lr": 1, "rounds": 5, "keep": 0}])
    [{'lr': 1}, {'lr': 2}, {'lr': 1, 'keep': 0}]
    """
    values: dict[str, list[str]] = {}
    for settings in several:
        for key, value in settings.items():
            values.setdefault(key, []).append(json.dumps(value, sort_keys=True))
    common = set()
    for key, texts in values.items():
        if len(texts) == len(several) and len(set(texts)) == 1:
            common.add(key)
    return [_without(settings, common) for settings in several]


def distinguishing_keys(tables: Sequence[Table]) -> list[str]:
    """The conditions that tell tables apart: data set, tasks and alpha always, others only where they are needed."""
    candidates = dict.fromkeys(HEADING)
    for table in tables:
        candidates |= dict.fromkeys(table.conditions)
    keys = []
    for key in USUAL:
        if all(key in table.conditions for table in tables):
            keys.append(key)
    for key in candidates:
        different = {_values(table, keys) for table in tables}
        if len(different) == len(tables):
            break
        if key not in keys and _varies(tables, key):
            keys.append(key)
    return keys


def told_apart(tables: Sequence[Table], shortly: bool = False) -> list[str]:
    """A title for each table: the conditions that tell them apart; ``shortly`` without those that all share."""
    keys = distinguishing_keys(tables)
    if shortly and len(tables) > 1:
        keys = [key for key in keys if _varies(tables, key)]
    titles = []
    for table in tables:
        conditions = [_condition(key, table) for key in keys]
        titles.append(", ".join(conditions))
    return titles


def natural(title: str) -> list[str | float]:
    """A key for sorting that orders the numbers in a text by value.

    >>> sorted(["tasks=10", "tasks=5", "tasks=5 alpha=0.2"], key=natural)
    ['tasks=5', 'tasks=5 alpha=0.2', 'tasks=10']
    """
    parts: list[str | float] = [*re.split(r"(\d+(?:\.\d+)?)", title)]
    parts[1::2] = map(float, parts[1::2])  # every second part is a number
    return parts


def _without(settings: Settings, keys: Collection[str]) -> Settings:
    return {key: value for key, value in settings.items() if key not in keys}


def _condition(key: str, table: Table) -> str:
    value = text(table.conditions.get(key))
    return value if key == "dataset" else f"{key} {value}"


def _values(table: Table, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(text(table.conditions.get(key)) for key in keys)


def _varies(tables: Sequence[Table], key: str) -> bool:
    return len({_values(table, [key]) for table in tables}) > 1
