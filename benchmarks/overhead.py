"""What the harness costs per client call: a method that does nothing, in an otherwise complete run."""

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import torch
from rich.console import Console
from torch import nn

from benchmarks.measure import Row, best
from fcl_bench import Backbone, Client, Clients, Scores, Task
from fcl_bench.config import composed
from fcl_bench.console import View
from fcl_bench.experiment import run

CLIENTS, ROUNDS, TASKS = 1000, 5, 2
REPEATS = 3


class Idle:
    """Asks every client for a number in every round."""

    rounds = ROUNDS

    def __init__(self, backbone: Backbone):
        self.features = backbone.features

    def init(self) -> int:
        return 0

    def learn(self, state: int, task: Task, clients: Clients) -> Iterator[int]:
        for _ in range(ROUNDS):
            yield sum(clients.map(self.answer, state), start=state)

    def answer(self, client: Client, state: int) -> int:
        return 1

    def classifier(self, state: int) -> nn.Module:
        return Scores(torch.zeros(self.features, 1, dtype=torch.float64))


def overhead() -> Row:
    (seconds,) = best(REPEATS, idle_run)
    how = f"{TASKS} tasks x {ROUNDS} exchanges x {CLIENTS} clients with progress bars, best of {REPEATS}"
    return Row("one client call that does nothing", how, 1000 * seconds / (TASKS * ROUNDS * CLIENTS), "ms", limit=0.3)


def idle_run() -> float:
    """Seconds in clients and server, of which neither does anything."""
    with TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        config = composed(
            "method=afcl",
            "dataset=gaussian",
            f"stream.tasks={TASKS}",
            f"partition.clients={CLIENTS}",
            f"cache_dir={folder}",
            f"output_dir={folder}",
        )
        config.method = {"_target_": f"{__name__}.Idle"}
        return run(config, View(Console(file=nowhere, force_terminal=True)))["seconds"]["total"]
