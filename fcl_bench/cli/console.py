"""What a person sees of a run: a header, progress, a line per task, the final table.

On a terminal the progress is drawn by rich; elsewhere (a file, a pipe, a cluster's log) there are plain lines only.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fcl_bench.config.run_id import method_name
from fcl_bench.run.environment import code
from fcl_bench.run.result import Result

if TYPE_CHECKING:  # a finished run is shown without torch
    from fcl_bench.federation import Exchange
    from fcl_bench.run.scenario import World
    from fcl_bench.stream import Task

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


class Bars(Progress):
    """Bars below something that is drawn with them, as a terminal can have one live display only."""

    above: RenderableType | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """Called by rich."""
        yield from [self.above] if self.above else []
        yield from super().get_renderables()


class View:
    """Told what happens by :func:`fcl_bench.run.experiment.run`.

    In a ``sweep`` a run that was finished before is only noted, and ``above`` the progress stands how the sweep goes.
    """

    def __init__(self, console: Console | None = None, sweep: bool = False, above: RenderableType | None = None):
        self.console = console or Console(highlight=False)
        self.skipped, self._sweep = False, sweep
        self._progress = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            speed_estimate_period=3600,  # rounds may take minutes
            disable=not self.console.is_terminal,
        )
        self._last_line = time.monotonic()
        if above:
            self._progress.above = above
            self._progress.start()

    def filling(self, what: str) -> Callable[[int, int], None]:
        """A progress callback (done, total) for the feature cache."""
        bar = self._progress.add_task(what, start=False, visible=False)

        def advance(done: int, total: int) -> None:
            text = f"{what}, {done:,} of {total:,}"
            self._progress.start_task(bar)
            self._progress.start()
            self._progress.update(bar, description=text, completed=done, total=total, visible=done < total)
            self._heartbeat(text)
            if done == total:
                self._progress.stop()

        return advance

    def begin(self, world: "World", method: Any, finished: int) -> None:
        """The header: what is about to happen, and what it will cost."""
        config, stream = world.config, world.stream
        rounds, epochs = (getattr(method, name, config.method.get(name, 1)) for name in ("rounds", "epochs"))
        samples, visits = len(world.train), len(world.train) * rounds * epochs
        facts = ", ".join(f"{key} {value}" for key, value in stream.parameters.items() if key != "name")
        inputs = "x".join(str(side) for side in world.train.shape[1:])
        training = "trained end to end" if world.backbone.trainable else "frozen"
        rows = {
            "method": method_name(config),
            "data set": f"{config.dataset.name}, {len(world.dataset.classes)} classes, "
            f"{samples:,} + {len(world.test):,} samples",
            "backbone": f"{config.backbone.name}, {training}, inputs {inputs}",
            "stream": f"{stream.parameters['name']} ({facts}), hash {stream.hash[:8]}",
            "cost": f"{len(stream.tasks)} tasks x {stream.clients} clients, rounds per task {rounds}, "
            f"{visits:,} sample visits",
        }
        if finished:
            rows["resumed"] = f"after task {finished} of {len(stream.tasks)}"
        for name, text in rows.items():
            self._line(Text.assemble((f"{name:<9} ", "bold"), text))
        self._tasks, self._per_task, self._done = len(stream.tasks), rounds, 0
        self._bar = self._progress.add_task("", total=rounds * self._tasks, completed=rounds * finished)
        self._progress.start()

    def answered(self, exchange: "Exchange") -> None:
        """A client has answered."""
        number = min(self._done + 1, self._per_task)  # what follows the last round belongs to it
        text = (
            f"task {exchange.task + 1} of {self._tasks}, round {number} of {self._per_task}, "
            f"{exchange.function}: {exchange.answered} of {exchange.asked} clients"
        )
        self._progress.update(self._bar, description=text)
        self._heartbeat(text)

    def round(self) -> None:
        """The method has handed out a model."""
        self._done += 1
        self._progress.update(self._bar, advance=1)

    def learned(self, task: "Task", result: Result) -> None:
        """The line of a finished task."""
        self._done = 0
        self._progress.update(self._bar, completed=self._per_task * (task.index + 1))
        now = {name: curve[-1] for name, curve in result["curves"].items()}
        self._line(
            f"task {task.index + 1:>2} of {self._tasks}  {task.seen:>3} classes (+{len(task.new)})  "
            f"average {_number(now['average_accuracy']):>5}  seen {_number(now['seen_accuracy']):>5}  "
            f"whole {_number(now['whole_accuracy']):>5}  {now['runtime_seconds']:.1f} s"
        )

    def finished_before(self, result: Result, folder: Path) -> None:
        """Say that nothing was computed, and with which code it was; then the final table again."""
        self.skipped = True
        if self._sweep:
            return
        then = result["environment"]
        made_by = f"version {then['fcl-bench']}, commit {then['git_commit']}"
        changed = any(then[name] != value for name, value in code().items())
        warning = "; the code has changed since" if changed else ""
        self._line(f"This run was finished before ({made_by}{warning}); resume=false runs it again.")
        self.end(result, folder)

    def end(self, result: Result, folder: Path) -> None:
        """The final table."""
        self._progress.stop()
        title = f"{result['method']} on {result['dataset']}, {result['backbone']}, seed {result['seed']}"
        table = Table(title=Text(title))
        table.add_column("metric")
        table.add_column("value", justify="right")
        for name, text in FINAL.items():
            table.add_row(text, _number(result["metrics"][name]))
        for name, other in result["other_classifiers"].items():
            text = f"{FINAL['average_accuracy']}, {name.replace('_', ' ')} classifier"
            table.add_row(text, _number(other["metrics"]["average_accuracy"]))
        traffic, seconds = result["traffic"], result["seconds"]
        table.add_section()
        table.add_row(
            "uplink / downlink (MB)", f"{traffic['uplink_bytes'] / 1e6:.2f} / {traffic['downlink_bytes'] / 1e6:.2f}"
        )
        table.add_row("exchanges", str(int(traffic["exchanges"])))
        table.add_row("client / server time (s)", f"{seconds['client']:.2f} / {seconds['server']:.2f}")
        table.add_row("stored at clients (MB)", f"{result['metrics']['stored_bytes'] / 1e6:.2f}")
        table.add_row("peak memory (MB)", f"{result['metrics']['peak_memory_mb']:.0f}")
        self.console.print("", table)
        self._line(f"record: {folder}")

    def stop(self) -> None:
        """Leave the terminal tidy after a failure."""
        self._progress.stop()

    def _heartbeat(self, line: str) -> None:
        if not self.console.is_terminal and time.monotonic() - self._last_line > HEARTBEAT:
            self._line(line)

    def _line(self, text: str | Text) -> None:
        self.console.print(text, markup=False, soft_wrap=not self.console.is_terminal)
        self._last_line = time.monotonic()


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
