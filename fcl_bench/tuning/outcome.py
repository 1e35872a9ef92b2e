"""The file of a tuning: every trial of every method, and nothing that two people would find different.

It is written again after each trial, so a tuning that was ended goes on; a trial in it is not run again.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from fcl_bench.config.protocol import flattened
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import remove_leftovers, write_atomically, writing_to
from fcl_bench.strict_json import read_json
from fcl_bench.tuning.trial import Score

SCHEMA = 1
LOCK = ".lock"
LEVELS = 4  # of the file that have a line for each entry; deeper ones share a line


@dataclass(frozen=True)
class TrialRecord:
    """A trial that was run."""

    trial: int
    id: str
    values: dict[str, Any]
    average_accuracy: float | None
    anytime_accuracy: float | None
    failed: str | None


@dataclass(frozen=True)
class Tuned:
    """A method, and its trials so far in their order."""

    settings: dict[str, Any]
    search: dict[str, Any]
    trials: tuple[TrialRecord, ...] = ()
    best: int | None = None

    def with_best(self, trials: int, samples: int) -> "Tuned":
        """The same, with the best trial on so many samples named as soon as there are all."""
        return replace(self, best=best(self.trials, samples) if len(self.trials) == trials else None)


@dataclass(frozen=True)
class Outcome:
    """The whole file."""

    schema: int
    protocol: str | None
    chosen_by: str
    trials: int  # of every method that has something to tune
    seed: int
    run_seed: int
    held_out: dict[str, Any]
    stream: str
    contents: str  # a hash of data, stream and weights
    settings: dict[str, Any]  # that all trials had in common
    methods: dict[str, Tuned] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As in the file."""
        methods = {name: asdict(self.methods[name]) for name in sorted(self.methods)}
        return f"{in_lines({**asdict(self), 'methods': methods}, LEVELS)}\n"


def best(trials: Iterable[TrialRecord], samples: int) -> int | None:
    """Of the trials whose accuracy after the last task is within a standard error of the highest, the best on the way.

    The earliest of equal ones; None if all have failed.
    """
    scored = []
    for trial in trials:
        if trial.average_accuracy is not None and trial.anytime_accuracy is not None:
            scored.append((trial.average_accuracy, trial.anytime_accuracy, trial.trial))
    if not scored:
        return None
    highest = max(final for final, _, _ in scored)
    least = highest - standard_error(highest, samples)
    equally_good = [(anytime, -number) for final, anytime, number in scored if final >= least]
    _, number = max(equally_good)
    return -number


def standard_error(accuracy: float, samples: int) -> float:
    """Of an accuracy in percent that was measured on so many samples.

    >>> standard_error(50.0, 2500)
    1.0
    """
    share = accuracy / 100
    return 100 * math.sqrt(share * (1 - share) / samples)


def recorded(number: int, identity: str, values: Mapping[str, Any], score: Score) -> TrialRecord:
    """A trial with its outcome."""
    return TrialRecord(number, identity, dict(values), **asdict(score))


def read(path: Path) -> Outcome:
    """The file at ``path``; a :class:`UserError` says why it is none."""
    try:
        return TypeAdapter(Outcome).validate_python(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{path} is no outcome of tune: {place}: {first['msg']}. Move it away.") from error
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read {path}: {error}. Move it away, or name another --out.") from error


def change(path: Path, empty: Outcome, edit: Callable[[dict[str, Tuned]], dict[str, Tuned]]) -> Outcome:
    """Edit the methods in the file at ``path``; other commands may be doing so, and none loses what another wrote."""
    with writing_to(path.parent, "--out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / LOCK):
            remove_leftovers(path.parent, [path.name])
            before = read(path) if path.exists() else empty
            refuse_another(path, before, empty)
            after = replace(before, methods=edit(before.methods))
            write_atomically(path, after.text.encode())
    return after


def refuse_another(path: Path, found: Outcome, wanted: Outcome) -> None:
    """Raise a :class:`ConfigError` if the trials in a file are not comparable with those of this command."""
    there, here = (flattened(asdict(replace(outcome, methods={}))) for outcome in (found, wanted))
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise ConfigError(
                f"The trials in {path} have {name}={there.get(name)}, but this command has {here.get(name)}: "
                "trials that are compared must have it in common, so name another folder with --out."
            )


def in_lines(value: Any, levels: int, indent: str = "") -> str:
    """JSON in which the upper levels have a line for each entry.

    >>> print(in_lines({"a": [1, 2], "b": {"c": {"d": None}}}, 2))
    {
      "a": [
        1,
        2
      ],
      "b": {
        "c": {"d": null}
      }
    }
    """
    if levels == 0 or not value or not isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    deeper = f"{indent}  "
    if isinstance(value, dict):
        entries = [f"{json.dumps(key)}: {in_lines(child, levels - 1, deeper)}" for key, child in value.items()]
        left, right = "{}"
    else:
        entries = [in_lines(child, levels - 1, deeper) for child in value]
        left, right = "[]"
    inner = ",\n".join(f"{deeper}{entry}" for entry in entries)
    return f"{left}\n{inner}\n{indent}{right}"
