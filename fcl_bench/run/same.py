"""Whether two records are the same run to the bit, and if not, where they part first.

Compared is all that a run computes, in the order in which it came to be; seconds, memory and places are not.
"""

from dataclasses import dataclass, field
from pathlib import Path

from fcl_bench.errors import ConfigError, UserError
from fcl_bench.run.partings import Saved, partings, unshared_metrics
from fcl_bench.run.result import Result, read_result
from fcl_bench.run.trust import verified


@dataclass(frozen=True)
class Comparison:
    """What was found."""

    parting: str | None  # where the two part first; None if they are the same
    compared: list[str]
    missing: list[str] = field(default_factory=list)  # what not both have
    circumstances: list[str] = field(default_factory=list)  # in which the two were computed, where they differ

    @property
    def sentence(self) -> str:
        """In one line."""
        if self.parting is not None:
            computed = f" They were computed with other {', '.join(self.circumstances)}." if self.circumstances else ""
            return f"Not the same run: {self.parting}.{computed}"
        left_out = f" Not compared, as not both have it: {', '.join(self.missing)}." if self.missing else ""
        return f"The same run to the bit: {', '.join(self.compared)} are equal.{left_out}"


def compare(one: Path, other: Path) -> Comparison:
    """Two finished runs, each named by its folder or its ``result.json``; a :class:`ConfigError` if that cannot be."""
    try:
        return _compare(_opened(one), _opened(other))
    except ConfigError:
        raise
    except UserError as error:
        raise ConfigError(str(error)) from error


def _opened(path: Path) -> Saved:
    record = path / "result.json" if path.is_dir() else path
    if not record.exists():
        raise ConfigError(f"There is no record {record}: name the folder of a finished run, or its result.json.")
    result = read_result(record)
    if result.get("status") != "complete":
        raise ConfigError(f"The run of {record} is not finished, so it cannot be compared: go on with it first.")
    verified(result, record)
    return Saved(record, result)


def _compare(one: Saved, other: Saved) -> Comparison:
    compared = ["settings", "contents", "stream", "accuracies", "traffic"]
    missing = []
    parts = {
        "exchanges": (one.exchanges, other.exchanges),
        "predictions": (one.predictions, other.predictions),
        "evidence": (one.result.get("evidence"), other.result.get("evidence")),
        "final state": (one.leaves, other.leaves),
    }
    for name, pair in parts.items():
        if None not in pair:
            compared.append(name)
        elif pair != (None, None) or name != "evidence":
            missing.append(name)
    missing += unshared_metrics(one.result, other.result)
    return Comparison(next(partings(one, other), None), compared, missing, _circumstances(one.result, other.result))


def _circumstances(one: Result, other: Result) -> list[str]:
    pair = [result["environment"] for result in (one, other)]
    return [name for name in dict.fromkeys([*pair[0], *pair[1]]) if pair[0].get(name) != pair[1].get(name)]
