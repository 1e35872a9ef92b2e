"""``leaderboard --hours``: the machine hours that some records took, and what of a run is counted in them."""

from collections.abc import Iterable, Iterator, Sequence

from fcl_bench.leaderboard.runs import Run
from fcl_bench.run.result import whole_run_seconds

HOUR = 3600
COUNTED = "what clients and server spent on learning, added up, without evaluation, features and start-up"


def hours(runs: Iterable[Run]) -> Iterator[str]:
    """A sentence for each protocol; a record that was found twice counts once."""
    by_protocol: dict[str, dict[tuple[object, ...], Run]] = {}
    for run in runs:
        seconds = run.result.get("seconds", {})
        key = (run.result["run_id"], *sorted(seconds.items()))
        by_protocol.setdefault(run.result["protocol"] or "no protocol", {})[key] = run
    for protocol, own in sorted(by_protocol.items()):
        yield f"{protocol}: {_of_one(list(own.values()))}"


def _of_one(runs: Sequence[Run]) -> str:
    known = [run.result["seconds"]["total"] for run in runs if "total" in run.result.get("seconds", {})]
    clocks = [found for found in map(whole_run_seconds, (run.result for run in runs)) if found is not None]
    learning = f"{sum(known) / HOUR:.2f} hours in {len(known):,} of {len(runs):,} records ({COUNTED})"
    whole = f"{sum(clocks) / HOUR:.2f} hours in {len(clocks):,} of them" if clocks else "in none of them"
    return f"{learning}; whole runs by the clock: {whole}."
