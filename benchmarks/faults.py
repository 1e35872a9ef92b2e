"""``python -m benchmarks.faults``: every method in federations whose clients fail at random.

Each scenario has random probabilities of all faults. A method learns it twice on the small data of the contract: once
in process, and once over the wire in pieces: wherever it can be resumed, a fresh method goes on from what was saved.
The state must be finite and the same to the bit. The counts are printed; the exit code is 1 if anything went wrong.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from fcl_bench.checks.sandbox import Sandbox
from fcl_bench.checks.variants import frozen_track, sandbox
from fcl_bench.config.catalogue import names
from fcl_bench.faults import Participation
from fcl_bench.message import encode, leaves
from fcl_bench.seeds import generator
from fcl_bench.transport.wire import Wire

OUTCOMES = ("good", "traceback", "not finite", "differs")
LEVELS = (0.0, 0.0, 0.2, 0.5, 0.9)  # of a probability, each equally likely
FAULTS = ("dropout", "lost", "late", "twice", "join_later", "away", "forget")


def main() -> int:
    """One line per method."""
    parser = argparse.ArgumentParser("python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="scenarios for each method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("methods", nargs="*", help="by default all")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    for name in options.methods or names("method"):
        counts = outcomes(name, options.count, options.seed)
        found += counts
        print(_line(name, counts), flush=True)
    print(_line("all", found))
    return int(found.total() > found["good"])


def outcomes(name: str, count: int, seed: int) -> Counter[str]:
    """How often each outcome occurs for a method."""
    counts: Counter[str] = Counter()
    place = sandbox((f"method={name}",), frozen_track((f"method={name}",)))
    for number in range(count):
        who = scenario(generator(seed, "faults", number))
        result = outcome(place, who)
        counts[result] += 1
        if result != "good":
            print(f"{name}: {result} with {who}", file=sys.stderr)
    return counts


def scenario(random: np.random.Generator) -> Participation:
    """A federation with random faults."""
    probabilities = {fault: float(random.choice(LEVELS)) for fault in FAULTS}
    share = float(random.choice((0.3, 0.6, 1.0)))
    arrival = "shuffled" if random.random() < 0.5 else "ordered"
    return Participation(participation=share, arrival=arrival, delay=int(random.integers(1, 3)), **probabilities)


def outcome(place: Sandbox, who: Participation) -> str:
    """What became of one scenario."""
    try:
        once = place.run(participation=who)
        within = getattr(place.method(), "resumes_within_tasks", False)
        again = place.run(participation=who, transport=Wire(), interrupted="states" if within else "tasks")
    except Exception as error:
        print(repr(error), file=sys.stderr)
        return "traceback"
    if not all(leaf.isfinite().all() for _, leaf in leaves((once.state, once.scores)) if torch.is_tensor(leaf)):
        return "not finite"
    return "good" if encode(once.state) == encode(again.state) else "differs"


def _line(name: str, counts: Counter[str]) -> str:
    parts: Sequence[str] = [f"{counts[outcome]:>5} {outcome}" for outcome in OUTCOMES]
    return f"{name:<12}{counts.total():>5} scenarios: {', '.join(parts)}"


if __name__ == "__main__":
    sys.exit(main())
