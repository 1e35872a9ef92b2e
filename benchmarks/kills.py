"""Runs that are killed at random points and gone on with: what differs in the end, and how many rounds were lost.

``python -m benchmarks.kills [--kills 30] [--seed 0] [METHOD ...]``. Kills are real (SIGKILL), before client calls and
within writes, several in a row of the same run. It ends with exit code 1 if a run ends differently, leaves a temporary
file, or loses more than one finished round at a kill. As rounds are short here, checkpoints may take all the time: each
round that is longer than a write is saved. With ``--share 0.02`` they take what they take in other runs.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch

from benchmarks.compared import differences
from benchmarks.killed import Life, live
from fcl_bench.run import pace

METHODS = ("finetune", "derpp", "fedewc")
TASKS = 3
KILLS_IN_A_ROW = 6  # of one run, about
SIZES = (
    *("dataset=gaussian", "dataset.classes=6", "dataset.train_size=3000", "dataset.test_size=60"),
    *("dataset.features=64", f"stream.tasks={TASKS}", "partition.clients=3", "logger=none"),
    *("method.rounds=3", "method.epochs=20", "method.batch_size=16"),
)


@dataclass
class Tally:
    """Of one method."""

    kills: int = 0
    runs: int = 0
    different: list[str] = field(default_factory=list)
    failures: int = 0
    leftovers: int = 0
    lost: list[int] = field(default_factory=list)  # finished rounds that were repeated, by kill
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether all is as promised."""
        return not (self.different or self.failures or self.leftovers) and max(self.lost, default=0) <= 1

    def __str__(self) -> str:
        return (
            f"{self.kills} kills in {self.runs} runs: {len(self.different)} differences {sorted(set(self.different))}, "
            f"{self.failures} failures, {self.leftovers} temporary files left, finished rounds lost at a kill: "
            f"{sum(self.lost)} in all, {max(self.lost, default=0)} at most; {self.seconds:.0f} s"
        )


def main() -> int:
    """Kill, and print a line per method."""
    parser = argparse.ArgumentParser("python -m benchmarks.kills", description=__doc__)
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    parser.add_argument("--kills", type=int, default=30, help="of each method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the time that may go into checkpoints")
    options = parser.parse_args()
    pace.SHARE = options.share
    torch.set_num_threads(1)  # forks have no other threads
    good = True
    for method in options.methods:
        with TemporaryDirectory() as folder:
            words = (f"method={method}", *SIZES)
            tally = killed_again_and_again(words, options.kills, random.Random(options.seed), Path(folder))
        print(f"{method:<12}{tally}", flush=True)
        good &= tally.good
    return int(not good)


def killed_again_and_again(words: Sequence[str], kills: int, random: random.Random, folder: Path) -> Tally:
    """Runs of one kind until there were so many kills, each compared with one that nobody killed."""
    tally = Tally()
    start = perf_counter()
    notes = folder / "notes"
    words = (*words, f"cache_dir={folder / 'cache'}")
    whole = live((*words, f"output_dir={folder / 'whole'}"), notes)
    while tally.kills < kills:
        place = folder / f"run{tally.runs}"
        _kill_one_run((*words, f"output_dir={place}"), notes, whole, kills, random, tally)
        tally.runs += 1
        tally.different += differences(run_folder(folder / "whole"), run_folder(place))
        tally.leftovers += len(temporary_files(place))
    tally.seconds = perf_counter() - start
    return tally


def _kill_one_run(
    words: Sequence[str], notes: Path, whole: Life, kills: int, random: random.Random, tally: Tally
) -> None:
    """One run to its end, killed on its way as long as there are kills left."""
    per_task = whole.states // TASKS
    reached = 0
    while True:
        kill_at = random.randint(1, 2 * whole.events // KILLS_IN_A_ROW) if tally.kills < kills else None
        life = live(words, notes, kill_at)
        if life.place is not None:
            begun = life.place[0] * per_task + life.place[1]
            tally.lost.append(reached - begun)
            reached = begun + life.states
        if life.code is not None:
            tally.failures += life.code != 0
            return
        tally.kills += 1


def run_folder(place: Path) -> Path:
    """The only one below an output folder."""
    (result,) = place.rglob("result.json")
    return result.parent


def temporary_files(place: Path) -> list[Path]:
    """Those that begin with a dot, but for the lock."""
    return [path for path in place.rglob(".*") if path.name != ".lock"]


if __name__ == "__main__":
    sys.exit(main())
