"""What Hydra calls for each run: alone or in a sweep, in this process or in another one."""

import json
import shlex
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from fcl_bench.cli import console
from fcl_bench.cli.console import View
from fcl_bench.cli.overview import Overview, Report, State
from fcl_bench.config.compose import check
from fcl_bench.config.explain import explained
from fcl_bench.errors import UserError
from fcl_bench.files import write_atomically
from fcl_bench.run.folder import find_finished


class Job:
    """A run, from its configuration; what goes wrong is kept, past Hydra, which would print it in its own way.

    A sweep sets ``overview``, which runs in its own process tell how they get on, or ``reports``, a folder in which
    runs in others leave a file each that says so; and ``numbers``, by which it knows the jobs of Hydra. ``quiet`` runs,
    which would share one terminal, say nothing else.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.overview: Overview | None = None
        self.reports: Path | None = None
        self.numbers: Sequence[int] = ()
        self.quiet = False

    def __getstate__(self) -> dict[str, Any]:
        """In another process there is no overview."""
        return {**self.__dict__, "overview": None}

    def __call__(self, config: DictConfig) -> None:
        """Do what is left of the run."""
        if self.overview is None and self.reports is None:
            try:
                with _viewed(console.View()) as view:
                    _run(config, view)
            except Exception as error:
                self.error = error
            return
        number, started, told = self.numbers[HydraConfig.get().job.num], time.time(), list[str]()
        self._report(Report(number, "running", started))
        state: State = "failed"
        reason = details = ""
        with _collected(told) if self.quiet else nullcontext():
            try:
                with _viewed(self._view()) as view:
                    _run(config, view)
                state = "skipped" if view.skipped else "done"
            except UserError as error:
                reason = " ".join(str(error).split())
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                details = "".join(traceback.format_exception(error))
        seconds = time.time() - started
        self._report(Report(number, state, started, seconds, reason, details, tuple(told)))

    def _view(self) -> View:
        silent = Console(quiet=True, force_terminal=False)
        return console.View(silent if self.quiet else None, sweep=True, above=self.overview)

    def _report(self, report: Report) -> None:
        if self.overview:
            self.overview.add(report)
        elif self.reports:
            with suppress(OSError):  # who asked has gone
                write_atomically(self.reports / f"{report.number}.json", json.dumps(asdict(report)).encode())


def read_reports(folder: Path, known: dict[int, Report]) -> Iterator[Report]:
    """What has changed since the reports that are known; a run that has ended does not change."""
    for path in sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem)):
        before = known.get(int(path.stem))
        if before is None or before.state == "running":
            content = json.loads(path.read_text())
            report = Report(**{**content, "warnings": tuple(content["warnings"])})
            if report != before:
                yield report


def _run(config: DictConfig, view: View) -> None:
    if before := find_finished(config):
        view.finished_before(*before)
        return
    with explained():
        check(config)
    from fcl_bench.run.experiment import run  # with torch and all the rest

    run(config, view, shlex.join(["python", "-m", "fcl_bench", *HydraConfig.get().overrides.task]))


@contextmanager
def _viewed(view: View) -> Iterator[View]:
    try:
        yield view
    finally:
        view.stop()


@contextmanager
def _collected(told: list[str]) -> Iterator[None]:
    """Warnings as texts, each once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_: told.append(str(message))
        yield
