"""How far a sweep is: counts, the time left, and the lines and bar that say so."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

State = Literal["running", "done", "skipped", "failed"]


@dataclass(frozen=True)
class Report:
    """What is known of one run of a sweep."""

    number: int
    state: State
    started: float  # as time.time() gives it
    seconds: float = 0.0
    note: str = ""  # in one line: why it failed, or what has changed since it was finished
    details: str = ""  # the traceback of a failure that nobody foresaw
    warnings: tuple[str, ...] = ()


def time_left(taken: Sequence[float], running: Sequence[float], waiting: int, width: int = 1) -> float | None:
    """Seconds to the end, if each run takes the mean of those ``taken`` so far and ``width`` of them go on at a time.

    ``running`` are the seconds that each run under way has had. None as long as no run has been computed.

    >>> time_left([10.0, 20.0], running=[5.0], waiting=2)
    40.0
    >>> time_left([], running=[5.0], waiting=2) is None
    True
    """
    if not taken:
        return None if running or waiting else 0.0
    mean = sum(taken) / len(taken)
    rests = [max(mean - elapsed, 0.0) for elapsed in running]
    at_a_time = max(1, min(width, len(running) + waiting))
    all_together = (sum(rests) + mean * waiting) / at_a_time
    return max([all_together, *rests])  # no run is faster than its own rest


def names(jobs: Sequence[Sequence[str]]) -> list[str]:
    """A short name for each job: those of its overrides that not all jobs have.

    >>> names([["method=afcl", "seed=1"], ["method=afcl", "seed=2"]])
    ['seed=1', 'seed=2']
    """
    shared = set(jobs[0]).intersection(*jobs[1:]) if len(jobs) > 1 else set()
    return [" ".join(word for word in job if word not in shared) or " ".join(job) for job in jobs]


class Overview:
    """All that is known of a sweep; on a terminal it is one line that stays, elsewhere plain lines."""

    def __init__(self, jobs: Sequence[Sequence[str]], console: Console | None = None):
        self.jobs = jobs
        self.console = console or Console(highlight=False)
        self.reports: dict[int, Report] = {}
        self._names = names(jobs)
        self._began = time.time()
        self._width = 1  # the most runs that were under way at a time

    def begin(self) -> None:
        """The first line, if anything is left to do."""
        if self.left and not self.console.is_terminal:
            self._print(self.line())

    def add(self, report: Report) -> None:
        """Take note of a change and say what a person wants to know of it."""
        self.reports[report.number] = report
        self._width = max(self._width, len(self._in_state("running")))
        name = self._names[report.number]
        for warning in report.warnings:
            print(f"warning: {name}: {warning}", file=sys.stderr)
        if report.state == "failed":
            print(f"{report.details}fcl_bench: {name}: {report.note}", file=sys.stderr)
        elif report.state == "skipped":
            note = f"; {report.note}" if report.note else ""
            self._print(f"sweep: {name} was finished before{note}")
        if report.state in ("done", "failed") and not self.console.is_terminal and self.left:
            self._print(self.line())

    def _in_state(self, *states: str) -> list[Report]:
        return [report for report in self.reports.values() if report.state in states]

    @property
    def done(self) -> int:
        """How many runs are finished, now or before."""
        return len(self._in_state("done", "skipped"))

    @property
    def left(self) -> int:
        """How many runs are neither finished nor failed."""
        return len(self.jobs) - self.done - len(self._in_state("failed"))

    @property
    def failures(self) -> list[str]:
        """A line for each failed run: how to repeat it, and why it failed."""
        failed = sorted(self._in_state("failed"), key=lambda report: report.number)
        return [f"{' '.join(self.jobs[report.number])}: {report.note}" for report in failed]

    def line(self) -> str:
        """The whole overview."""
        return f"{self._counts()}, eta {self._eta()}"

    def _counts(self) -> str:
        running = len(self._in_state("running"))
        under_way = f"{running} running, " if running else ""
        return f"sweep: {self.done} of {len(self.jobs)} done, {under_way}{len(self._in_state('failed'))} failed"

    def _eta(self) -> str:
        running = [time.time() - report.started for report in self._in_state("running")]
        taken = [report.seconds for report in self._in_state("done")]
        seconds = time_left(taken, running, self.left - len(running), self._width)
        return "unknown" if seconds is None else clock(seconds)

    def __rich__(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=len(self.jobs), completed=len(self.jobs) - self.left, width=12)
        row.add_row(Text(self._counts()), bar, Text(f"eta {self._eta()}"))
        return row

    def end(self) -> None:
        """The last line: what became of all runs."""
        skipped = len(self._in_state("skipped"))
        before = f" ({skipped} finished before)" if skipped else ""
        rest = f", {self.left} left" if self.left else ""
        failed = len(self._in_state("failed"))
        seconds = time.time() - self._began
        self._print(
            f"sweep: {self.done} of {len(self.jobs)} done{before}, {failed} failed{rest}, after {clock(seconds)}"
        )

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=not self.console.is_terminal)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock(79.6)
    '0:01:20'
    """
    return str(timedelta(seconds=round(seconds)))
