"""What the harness costs per client call: an otherwise complete run of a method that does nothing."""

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import torch
from rich.console import Console
from torch import nn

from benchmarks.measure import Row, best
from fcl_bench import Backbone, Client, Clients, Scores, Task
from fcl_bench.cli.console import View
from fcl_bench.config.compose import composed
from fcl_bench.run.experiment import run

TASKS, ROUNDS, CLIENTS, REPEATS = 2, 5, 1000, 3
DATA = ("dataset=gaussian", "dataset.train_size=10000", "dataset.test_size=100", "dataset.features=8")


class Idle:
    """Asks every client for a number in every round."""

    rounds = ROUNDS

    def __init__(self, backbone: Backbone):
        self.features = backbone.features

    def init(self) -> int:
        """Nothing learned."""
        return 0

    def learn(self, state: int, task: Task, clients: Clients) -> Iterator[int]:
        """Hear the answers, and know how many classes there are."""
        for _ in range(ROUNDS):
            sum(clients.map(self.answer, state))
            yield task.seen

    def answer(self, client: Client, received: int) -> int:
        """At the client."""
        return 1

    def classifier(self, state: int) -> nn.Module:
        """Always the first class."""
        return Scores(torch.zeros(self.features, state, dtype=torch.float64))


def overhead() -> Iterator[Row]:
    (seconds,) = best(REPEATS, idle_seconds)
    milliseconds = 1000 * seconds / (TASKS * ROUNDS * CLIENTS)
    how = (
        f"a run of {TASKS} tasks x {ROUNDS} exchanges x {CLIENTS} clients, with log and progress bar; best of {REPEATS}"
    )
    yield Row("a client call that does nothing", how, milliseconds, "ms", limit=0.15)


def idle_seconds() -> float:
    """What a clock shows for the learning of a run, with all that the harness spends."""
    with TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        sizes = (f"stream.tasks={TASKS}", f"partition.clients={CLIENTS}")
        config = composed("method=afcl", *DATA, *sizes, f"cache_dir={folder}", f"output_dir={folder}")
        config.method = {"_target_": "benchmarks.overhead.Idle"}
        return run(config, View(Console(file=nowhere, force_terminal=True)))["metrics"]["wall_seconds"]
