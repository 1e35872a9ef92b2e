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

from fcl_bench.cli.header import header, rounds_per_task
from fcl_bench.run.environment import changes_since
from fcl_bench.run.result import Result
from fcl_bench.visible import visible

if TYPE_CHECKING:  # a finished run is shown without torch
    from fcl_bench.learning import Progress as LearningProgress
    from fcl_bench.run.scenario import Scenario
    from fcl_bench.stream import Task
    from fcl_bench.traffic import Exchange

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
    """Shows what :func:`fcl_bench.run.experiment.run` tells it.

    In a ``sweep`` a run that was finished before is only noted. ``above`` is drawn above the progress of the run.
    """

    def __init__(self, console: Console | None = None, sweep: bool = False, above: RenderableType | None = None):
        self.console = console or Console(highlight=False)
        self.skipped = False
        self.note = ""  # on the run that was skipped
        self._sweep = sweep
        self._last_line = time.monotonic()
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

    def begin(self, scenario: "Scenario", method: Any, progress: "LearningProgress") -> None:
        """The header, and a bar that shows how far the run is."""
        for name, text in header(scenario, method, progress).items():
            self._line(Text.assemble((f"{name:<9} ", "bold"), text))
        self._tasks = len(scenario.stream.tasks)
        self._per_task = rounds_per_task(scenario, method)
        self._rounds_done = progress.yielded  # of the present task
        done = self._per_task * progress.task + progress.yielded
        self._bar = self._progress.add_task("", total=self._per_task * self._tasks, completed=done)
        self._progress.start()

    def answered(self, exchange: "Exchange") -> None:
        """A client has answered."""
        number = min(self._rounds_done + 1, self._per_task)  # what follows the last round belongs to it
        text = (
            f"task {exchange.task + 1} of {self._tasks}, round {number} of {self._per_task}, "
            f"{exchange.function}: {exchange.answered} of {exchange.asked} clients"
        )
        self._progress.update(self._bar, description=text)
        self._heartbeat(text)

    def round_done(self) -> None:
        """The method has handed out a model."""
        self._rounds_done += 1
        self._progress.update(self._bar, advance=1)

    def learned(self, task: "Task", result: Result) -> None:
        """The line of a finished task."""
        self._rounds_done = 0
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
        self.note = changes_since(result)
        if self._sweep:
            return
        then = result["environment"]
        made_by = visible(f"version {then.get('fcl-bench')}, commit {then.get('git_commit')}")
        warning = f"; {self.note}" if self.note else ""
        self._line(f"This run was finished before ({made_by}{warning}); resume=false runs it again.")
        self.end(result, folder)

    def end(self, result: Result, folder: Path) -> None:
        """The final table."""
        self._progress.stop()
        self.console.print("", final_table(result))
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


def final_table(result: Result) -> Table:
    """Metrics, then costs."""
    title = f"{result['method']} on {result['dataset']}, {result['backbone']}, seed {result['seed']}"
    table = Table(title=Text(visible(title)))
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, text in FINAL.items():
        table.add_row(text, _number(result["metrics"].get(name)))
    for name, other in result.get("other_classifiers", {}).items():
        text = f"{FINAL['average_accuracy']}, {visible(name).replace('_', ' ')} classifier"
        table.add_row(Text(text), _number(other["metrics"]["average_accuracy"]))
    table.add_section()
    for text, value in _costs(result).items():
        table.add_row(text, value)
    return table


def _costs(result: Result) -> dict[str, str]:
    costs = {name: value or 0 for name, value in result["metrics"].items()}
    both_ways = [_megabytes(costs.get(name, 0)) for name in ("uplink_bytes", "downlink_bytes")]
    seconds = [f"{costs.get(name, 0):.2f}" for name in ("client_seconds", "server_seconds")]
    rejected = costs.get("rejected_replies")  # records of earlier versions do not know
    return {
        **({"replies that were dropped": str(int(rejected))} if rejected else {}),
        "uplink / downlink (MB)": " / ".join(both_ways),
        "exchanges": str(int(costs.get("exchanges", 0))),
        **_faults(costs),
        "client / server time (s)": " / ".join(seconds),
        "stored at clients (MB)": _megabytes(costs.get("stored_bytes", 0)),
        "peak memory (MB)": f"{costs.get('peak_memory_mb', 0):.0f}",
    }


def _faults(metrics: dict[str, Any]) -> dict[str, str]:
    """One row, if there was any."""
    counts = [metrics.get(name) or 0 for name in ("lost_answers", "late_answers", "double_answers")]
    return {"answers lost / late / double": " / ".join(map(str, counts))} if any(counts) else {}


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.2f}"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
