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
        return _compare(opened(one), opened(other))
    except ConfigError:
        raise
    except UserError as error:
        raise ConfigError(str(error)) from error


def opened(path: Path) -> Saved:
    """A finished run, by its folder or its ``result.json``; a :class:`UserError` if it cannot be believed."""
    record = path / "result.json" if path.is_dir() else path
    if not record.exists():
        raise ConfigError(f"There is no record {record}: name the folder of a finished run, or its result.json.")
    result = read_result(record)
    if result.get("status") != "complete":
        raise ConfigError(f"The run of {record} is not finished, so it cannot be compared: go on with it first.")
    verified(result, record)
    return Saved(record, result)


def _compare(one: Saved, other: Saved) -> Comparison:
    compared, missing = compared_parts(one, other)
    parting = next(partings(one, other), None)
    sentence = None if parting is None else parting.sentence()
    return Comparison(sentence, compared, missing, _circumstances(one.result, other.result))


def compared_parts(one: Saved, other: Saved) -> tuple[list[str], list[str]]:
    """What of two runs is compared, and what is not, as not both have it."""
    both = {
        "exchanges": None not in (one.exchanges, other.exchanges),
        "predictions": _have_predictions(one, other),
        "evidence": all("evidence" in saved.result for saved in (one, other)),
        "final state": None not in (one.leaves, other.leaves),
    }
    compared = ["settings", "contents", "stream", "accuracies", "traffic"]
    compared += [name for name, compares in both.items() if compares]
    missing = [name for name, compares in both.items() if not compares]
    if not any("evidence" in saved.result for saved in (one, other)):
        missing.remove("evidence")  # most methods have none
    return compared, missing + unshared_metrics(one.result, other.result)


def _have_predictions(one: Saved, other: Saved) -> bool:
    """Both have the arrays, or both say the digest of theirs."""
    arrays = None not in (one.predictions, other.predictions)
    return arrays or None not in (one.digest_of_predictions, other.digest_of_predictions)


def _circumstances(one: Result, other: Result) -> list[str]:
    pair = [result["environment"] for result in (one, other)]
    return [name for name in dict.fromkeys([*pair[0], *pair[1]]) if pair[0].get(name) != pair[1].get(name)]
