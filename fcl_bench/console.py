"""What a person sees of a run: a header, progress, a line per task, the final table.

On a terminal the progress is drawn by rich; elsewhere (a file, a pipe, a cluster's log) there are plain lines only.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from fcl_bench.config import method_name
from fcl_bench.federation import Exchange
from fcl_bench.stream import Task
from fcl_bench.summary import Result
from fcl_bench.world import World

HEARTBEAT = 30.0  # seconds between plain lines inside a task

FINAL = {  # rows of the final table: metric -> what a reader calls it
    "average_accuracy": "average accuracy A_T (%)",
    "whole_accuracy": "accuracy on the whole test set (%)",
    "anytime_accuracy": "anytime accuracy (%)",
    "retention": "knowledge retention F_T",
    "stability": "stability S_T (%)",
    "plasticity": "plasticity P_T (%)",
    "forgetting": "forgetting (points)",
    "backward_transfer": "backward transfer (points)",
}


class View:
    """Told what happens by :func:`fcl_bench.experiment.run`."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._last_line = time.monotonic()

    def filling(self, what: str) -> Callable[[int, int], None]:
        """A progress callback (done, total) for the feature cache."""
        bar = self._progress.add_task(what, total=None)

        def advance(done: int, total: int) -> None:
            self._progress.start()
            self._progress.update(bar, completed=done, total=total)
            self._heartbeat(f"{what}: {done} of {total}")
            if done == total:
                self._progress.remove_task(bar)
                self._progress.stop()

        return advance

    def begin(self, world: World, method: Any, finished: int) -> None:
        """The header: what is about to happen, and what it will cost."""
        config, stream, rounds = world.config, world.stream, getattr(method, "rounds", 1)
        passes = rounds * getattr(method, "epochs", 1)
        samples = len(world.train)
        facts = ", ".join(f"{key} {value}" for key, value in stream.parameters.items() if key not in ("name", "manifest"))
        inputs = "x".join(str(side) for side in world.train.shape[1:])
        rows = {
            "method": method_name(config),
            "data set": f"{config.dataset.name}, {len(world.dataset.classes)} classes, {samples:,} + {len(world.test):,} samples",
            "backbone": f"{config.backbone.name}, {'trained end to end' if world.backbone.trainable else 'frozen'}, inputs {inputs}",
            "stream": f"{stream.parameters['name']} ({facts}), hash {stream.hash[:8]}",
            "cost": f"{len(stream.tasks)} tasks x {stream.clients} clients x {rounds} rounds, {samples * passes:,} sample visits",
        }
        if finished:
            rows["resumed"] = f"after task {finished} of {len(stream.tasks)}"
        for name, text in rows.items():
            self._line(f"[bold]{name:<9}[/bold] {text}")
        self._progress.start()
        self._rounds = self._progress.add_task("tasks", total=rounds * len(stream.tasks), completed=rounds * finished)
        self._clients = self._progress.add_task("clients", total=stream.clients)
        self._tasks, self._per_task, self._done = len(stream.tasks), rounds, 0

    def answered(self, exchange: Exchange) -> None:
        """A client has answered."""
        self._progress.update(self._clients, completed=exchange.answered, total=exchange.asked)
        self._heartbeat(
            f"task {exchange.task + 1} of {self._tasks}, round {self._done % self._per_task + 1} of {self._per_task}, "
            f"{exchange.function}: {exchange.answered} of {exchange.asked} clients"
        )

    def round(self) -> None:
        """The method has handed out a model."""
        self._done += 1
        self._progress.update(self._rounds, advance=1)

    def learned(self, task: Task, result: Result) -> None:
        """The line of a finished task."""
        self._done = 0
        self._progress.update(self._rounds, completed=self._per_task * (task.index + 1))
        now = {name: curve[-1] for name, curve in result["curves"].items()}
        self._line(
            f"task {task.index + 1:>2} of {self._tasks}   classes {task.seen:>4} (+{len(task.new)})   "
            f"average {_number(now['average_accuracy'])} %   seen {_number(now['seen_accuracy'])} %   "
            f"whole {_number(now['whole_accuracy'])} %   {now['runtime_seconds']:.1f} s"
        )

    def end(self, result: Result, folder: Path) -> None:
        """The final table; for a run that was finished before, the same table again."""
        self._progress.stop()
        table = Table(title=f"{result['method']} on {result['dataset']}, {result['backbone']}, seed {result['seed']}")
        table.add_column("metric")
        table.add_column("value", justify="right")
        for name, text in FINAL.items():
            table.add_row(text, _number(result["metrics"][name]))
        traffic, seconds = result["traffic"], result["seconds"]
        table.add_section()
        table.add_row("uplink / downlink (MB)", f"{traffic['uplink_bytes'] / 1e6:.2f} / {traffic['downlink_bytes'] / 1e6:.2f}")
        table.add_row("exchanges", str(int(traffic["exchanges"])))
        table.add_row("client / server time (s)", f"{seconds['client']:.2f} / {seconds['server']:.2f}")
        table.add_row("peak memory (MB)", f"{result['metrics']['peak_memory_mb']:.0f}")
        self.console.print("", table)
        self._line(f"record: {folder}")

    def stop(self) -> None:
        """Leave the terminal tidy after a failure."""
        self._progress.stop()

    def _heartbeat(self, line: str) -> None:
        if not self.console.is_terminal and time.monotonic() - self._last_line > HEARTBEAT:
            self._line(line)

    def _line(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)
        self._last_line = time.monotonic()


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
