"""One run, alone or as a part of a sweep, in this process or in another one.

Whether it was finished before is decided in :mod:`fcl_bench.run.finished_runs`.
"""

import json
import shlex
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from fcl_bench.cli import console
from fcl_bench.cli.console import View
from fcl_bench.cli.leader import Leader
from fcl_bench.cli.overview import Overview, Report
from fcl_bench.config.compose import check, settings_of
from fcl_bench.config.explain import explained
from fcl_bench.errors import UserError
from fcl_bench.files import write_atomically
from fcl_bench.interruption import Interrupted, interrupted
from fcl_bench.loggers import warn_of_unused_logger
from fcl_bench.run.allocator import keep_freed_memory
from fcl_bench.run.alone import alone_from_the_start
from fcl_bench.run.environment import forget_peak_memory
from fcl_bench.run.finished_runs import find_finished


def carry_out(composed: DictConfig, overrides: Sequence[str], view: View) -> None:
    """Show a finished run again, or do what is left of it; ``composed`` is what Hydra made of the overrides."""
    with explained():
        config = settings_of(composed, overrides)
    before = find_finished(config)
    if before:
        view.finished_before(*before)
    else:
        _run(config, overrides, view)
    if view.skipped:
        warn_of_unused_logger(config)


def _run(config: DictConfig, overrides: Sequence[str], view: View) -> None:
    with alone_from_the_start(config):
        with explained():
            check(config)  # imports what the configuration names, and with it torch
        from fcl_bench.run.experiment import run
        from fcl_bench.run.replayed import refuse_contradictions

        refuse_contradictions(config, overrides)
        keep_freed_memory()
        forget_peak_memory()
        run(config, view, shlex.join(["python", "-m", "fcl_bench", *overrides]))


@contextmanager
def viewed(view: View) -> Iterator[View]:
    """Leave the terminal tidy, whatever happens."""
    try:
        yield view
    finally:
        view.stop()


@dataclass(frozen=True)
class SweepJob:
    """What Hydra calls for each run of a sweep: what goes wrong is reported instead of raised."""

    numbers: Sequence[int]  # of the runs, in the order in which Hydra counts its jobs
    report: Callable[[Report], None]
    above: Overview | None = None  # to be drawn above the progress of the run
    quiet: bool = False  # several runs share one terminal: they say nothing but what they report
    leader: Leader | None = None  # None where runs go on without the process that began the sweep

    def __call__(self, composed: DictConfig) -> None:
        """Do what is left of the run."""
        if self.leader:
            self.leader.end_with_it()
        number = self.numbers[HydraConfig.get().job.num]
        report = Report(number, "running", time.time())
        self.report(report)
        messages: list[str] = []
        with _collect_warnings(messages) if self.quiet else nullcontext():
            report = self._run(composed, report)
        seconds = time.time() - report.started
        self.report(replace(report, seconds=seconds, warnings=tuple(messages)))

    def _run(self, composed: DictConfig, report: Report) -> Report:
        try:
            with viewed(self._view()) as view:
                carry_out(composed, HydraConfig.get().overrides.task, view)
            return replace(report, state="skipped" if view.skipped else "done", note=view.note)
        except Exception as error:
            if interrupted():
                raise Interrupted from error
            if isinstance(error, UserError):
                return replace(report, state="failed", note=_one_line(str(error)))
            details = "".join(traceback.format_exception(error))
            return replace(report, state="failed", note=_one_line(f"{type(error).__name__}: {error}"), details=details)

    def _view(self) -> View:
        silent = Console(quiet=True, force_terminal=False)
        return console.View(silent if self.quiet else None, sweep=True, above=self.above)


def write_report(folder: Path, report: Report) -> None:
    """Leave a report where the process that started the sweep looks for it."""
    with suppress(OSError):  # that process has ended
        write_atomically(folder / f"{report.number}.json", json.dumps(asdict(report)).encode())


def read_reports(folder: Path, known: dict[int, Report]) -> Iterator[Report]:
    """The reports that are not among the known ones; a run that has ended does not change."""
    for path in sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem)):
        before = known.get(int(path.stem))
        if before is None or before.state == "running":
            content = json.loads(path.read_text())
            report = Report(**{**content, "warnings": tuple(content["warnings"])})
            if report != before:
                yield report


@contextmanager
def _collect_warnings(messages: list[str]) -> Iterator[None]:
    """Keep the texts of warnings instead of printing them, each text once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_: messages.append(str(message))
        yield


def _one_line(text: str) -> str:
    return " ".join(text.split())
