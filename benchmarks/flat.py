"""``python -m benchmarks.flat``: what grows in the course of 5,000 exchanges, in this process and in workers.

One run of a method that does nothing, with record and plain console. Memory, open descriptors and the sizes of logs are
looked at every so many exchanges; slopes are those of least squares over the second half, as the first one warms up. Of
the time between two looks the least in each half counts. Linux only.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from rich.console import Console

from benchmarks.measure import HEADER, Row
from benchmarks.memory import anonymous_mb
from benchmarks.overhead import Idle
from fcl_bench import Backbone, Clients, Task
from fcl_bench.cli.console import View
from fcl_bench.config.compose import composed
from fcl_bench.run.experiment import run

EXCHANGES, SAMPLES = 5000, 50
SIZES = ("dataset.classes=4", "dataset.train_size=200", "dataset.test_size=20", "dataset.features=8")
DATA = ("dataset=gaussian", *SIZES)
STREAM = ("stream=iid", "stream.tasks=1", "partition=iid", "partition.clients=2")
TRANSPORTS = {"in_process": (), "processes": ("transport.workers=2",)}
LIMITS = {"memory": 1.0, "descriptors": 0.01, "log": 400_000.0, "console": 100_000.0}  # per 1,000 exchanges
UNITS = {"memory": "MB", "descriptors": "", "log": "bytes", "console": "bytes"}
SLOWER = 1.2  # how much longer an exchange may take in the second half


class Asks(Idle):
    """As many exchanges as are wanted in one task."""

    def __init__(self, backbone: Backbone, rounds: int):
        super().__init__(backbone)
        self.rounds = rounds

    def learn(self, state: int, task: Task, clients: Clients) -> Iterator[int]:
        """A state after each."""
        for _ in range(self.rounds):
            sum(clients.map(self.answer, state))
            yield task.seen


@dataclass(frozen=True)
class Sample:
    """The state of things after some exchanges; memory and descriptors are those of all processes of the run."""

    memory: float
    descriptors: int
    seconds: float
    log: int
    console: int


class Watching(View):
    """Takes samples."""

    def __init__(self, folder: Path, every: int):
        self.file = (folder / "console.txt").open("w")
        super().__init__(Console(file=self.file, force_terminal=False))
        self.folder = folder
        self.every = every
        self.exchanges = 0
        self.samples: list[Sample] = []

    def round_done(self) -> None:
        """Called after every exchange, as the method hands out a state after each."""
        super().round_done()
        self.exchanges += 1
        if self.exchanges % self.every == 0:
            self.samples.append(self.sample())

    def sample(self) -> Sample:
        """As of now."""
        processes = [os.getpid(), *below(os.getpid())]
        self.file.flush()
        (log,) = self.folder.rglob("exchanges.jsonl")
        return Sample(
            memory=sum(map(anonymous_mb, processes)),
            descriptors=sum(len(os.listdir(f"/proc/{process}/fd")) for process in processes),
            seconds=perf_counter(),
            log=log.stat().st_size,
            console=(self.folder / "console.txt").stat().st_size,
        )


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.flat", description=__doc__)
    parser.add_argument("--exchanges", type=int, default=EXCHANGES)
    options = parser.parse_args()
    print(f"{'':<12}{HEADER}", flush=True)
    missed = False
    for name in TRANSPORTS:
        for row in rows(watched(name, options.exchanges), options.exchanges):
            print(f"{name:<12}{row}", flush=True)
            missed |= row.missed
    return int(missed)


def watched(transport: str, exchanges: int) -> list[Sample]:
    """Of one run."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        words = ("method=afcl", *DATA, *STREAM, f"transport={transport}", *TRANSPORTS[transport])
        config = composed(*words, f"cache_dir={folder}", f"output_dir={folder}")
        config.method = {"_target_": "benchmarks.flat.Asks", "rounds": exchanges}
        view = Watching(folder, exchanges // SAMPLES)
        run(config, view)
        view.file.close()
        return view.samples


def rows(samples: Sequence[Sample], exchanges: int) -> Iterator[Row]:
    """The growth of each quantity per 1,000 exchanges, and the time of an exchange late and early."""
    thousands = exchanges / len(samples) * np.arange(1, len(samples) + 1) / 1000
    for name, limit in LIMITS.items():
        values = np.array([getattr(sample, name) for sample in samples])
        grown = slope(thousands, values)
        yield Row(f"{name} per 1,000 exchanges", "", grown, UNITS[name], limit=limit)
    seconds = np.diff([sample.seconds for sample in samples]) * len(samples) / exchanges
    early, late = np.array_split(seconds, 2)
    yield Row("an exchange, second half / first", "", 1000 * late.min(), "ms", 1000 * early.min(), limit=SLOWER)


def slope(places: np.ndarray, values: np.ndarray) -> float:
    """By least squares over the second half."""
    half = len(places) // 2
    return float(np.polyfit(places[half:], values[half:], 1)[0])


def below(process: int) -> list[int]:
    """The processes that it has begun, and those that they have begun."""
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *below(child)]
    return found


if __name__ == "__main__":
    sys.exit(main())
