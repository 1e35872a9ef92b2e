"""What two records of one run say about each other: equal, equal within rounding, or different, and in what."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fcl_bench.run.partings import Parting, Saved, partings
from fcl_bench.run.result import Result
from fcl_bench.run.same import compared_parts

ROUNDING = 0.1  # percentage points by which an accuracy may differ, of whatever task, after whatever task
SHOWN = 3  # differences that are told
VERSIONS = ("torch", "torchvision", "lightning", "timm", "numpy", "scikit-learn", "python", "platform")

Name = Literal["equal", "equal within rounding", "different"]


@dataclass(frozen=True)
class Verdict:
    """The name of it, and what it rests on."""

    name: Name
    sentence: str


def verdict(record: Saved, again: Saved) -> Verdict:
    """What the second, of today, says about the first."""
    again = replace(again, result={**again.result, "config": record.result["config"]})  # they are, in today's words
    found = list(partings(record, again))
    compared, missing = compared_parts(record, again)
    left_out = f" Not compared, as not both have it: {', '.join(missing)}." if missing else ""
    if not found:
        return Verdict("equal", f"{', '.join(compared)} are equal to the bit.{left_out}")
    origin = circumstances(record.result, again.result)
    beyond = [parting for parting in found if parting.points > ROUNDING]
    if beyond:
        return Verdict("different", f"{_told(beyond)}.{origin}{left_out}")
    return Verdict("equal within rounding", f"{_largest(found)}; all counts are equal.{origin}{left_out}")


def _told(beyond: list[Parting]) -> str:
    more = f"; and {len(beyond) - SHOWN:,} more" if len(beyond) > SHOWN else ""
    return "; ".join(map(_sentence, beyond[:SHOWN])) + more


def _largest(found: list[Parting]) -> str:
    worst = max(found, key=lambda parting: parting.points)
    if worst.points == 0:
        return f"accuracies are equal, but {_sentence(worst)}"
    return f"accuracies differ by up to {worst.points:.2g} percentage points ({_sentence(worst)})"


def _sentence(parting: Parting) -> str:
    return parting.sentence("in the record", "here")


def circumstances(one: Result, other: Result) -> str:
    """A sentence for what versions and machines the two were computed with, where these differ; else nothing."""
    pair = [dict(_environment(result)) for result in (one, other)]
    differing = [name for name in pair[0] if name in pair[1] and pair[0][name] != pair[1][name]]
    if not differing:
        return ""
    clauses = [f"{name} {pair[0][name]} (here {pair[1][name]})" for name in differing]
    return f" The record was computed with {', '.join(clauses)}."


def _environment(result: Result) -> Iterator[tuple[str, str]]:
    found = result["environment"]
    for name in VERSIONS:
        if found.get(name) is not None:
            yield name, str(found[name])
    threads = recorded_threads(result)
    if threads:
        yield "threads", str(threads)
    device = str(found.get("device", ""))
    yield "device", "cpu" if device.startswith("cpu") else device
    if found.get("git_commit"):
        commit, plus, changes = str(found["git_commit"]).partition("+")
        yield "commit", f"{commit[:8]}{plus}{changes}"


def recorded_threads(result: Result) -> int | None:
    """How many threads large tensors had; earlier versions say it with the device."""
    environment = result["environment"]
    found = re.fullmatch(r"(?:cpu x )?(\d{1,3})", str(environment.get("threads") or environment.get("device")))
    return int(found[1]) if found else None
