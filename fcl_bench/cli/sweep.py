"""Sweeps: Hydra's own, but finished runs are left out, an overview is told, and failures are listed at the end."""

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins import sweeper
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf
from rich.live import Live

from fcl_bench.cli.job import Job, read_reports
from fcl_bench.cli.overview import Overview, Report
from fcl_bench.data.file_states import FileStates
from fcl_bench.errors import UserError
from fcl_bench.run.folder import find_finished

BASIC = "hydra._internal.core_plugins.basic_"  # modules of Hydra's own sweeper and launcher
PAUSE = 0.5  # seconds between looks at the reports of other processes


def install() -> None:
    """Put :class:`Sweeper` in the place of Hydra's own, as plugins in packages other than its are not taken."""
    Plugins.instance().class_name_to_class[f"{BASIC}sweeper.BasicSweeper"] = Sweeper


class Sweeper(sweeper.Sweeper):
    """All combinations of the swept values, by any launcher; the task function is a :class:`Job`."""

    def __init__(self, max_batch_size: int | None = None, params: Mapping[str, str] | None = None):
        self.max_batch_size, self.params = max_batch_size, params or {}

    def setup(self, *, hydra_context: HydraContext, task_function: Any, config: DictConfig) -> None:
        """Called by Hydra."""
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)
        self.loader, self.settings = hydra_context.config_loader, config
        self.job: Job = task_function
        self.folder = Path(config.hydra.sweep.dir)

    def sweep(self, arguments: list[str]) -> list[Any]:
        """Do all runs that are not finished; a :class:`UserError` lists the failures."""
        jobs = self._jobs(arguments)
        self.folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.settings, self.folder / "multirun.yaml")
        overview = Overview(jobs)
        left = self._unfinished(jobs, overview)
        try:
            with self._watched(overview):
                self._launch(jobs, left)
        except KeyboardInterrupt:
            overview.end()
            for line in overview.failures:
                print(f"fcl_bench: {line}", file=sys.stderr)
            raise
        except Exception as error:  # of the launcher, such as a process that was killed
            _stopped(error, overview)
        overview.end()
        if overview.failures:
            raise UserError("\n  ".join([f"{len(overview.failures)} of {len(jobs)} runs failed:", *overview.failures]))
        return []

    def _jobs(self, arguments: Sequence[str]) -> list[list[str]]:
        """The overrides of each run."""
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # which Hydra loads anew at its start

        words = [*(f"{key}={value}" for key, value in self.params.items()), *arguments]
        overrides = OverridesParser.create(config_loader=self.loader).parse_overrides(words)
        return BasicSweeper.split_arguments(overrides, None)[0]

    def _unfinished(self, jobs: Sequence[Sequence[str]], overview: Overview) -> list[int]:
        """The runs to launch; a setting that does not exist in any of them is an error before the first one starts."""
        left = []
        states = FileStates()
        for number, overrides in enumerate(jobs):
            config = self.loader.load_sweep_config(self.settings, list(overrides))
            try:
                before = find_finished(
                    OmegaConf.masked_copy(config, [key for key in map(str, config) if key != "hydra"]), states
                )
            except UserError:
                before = None  # the run itself will say so
            if before:
                overview.add(Report(number, "skipped", time.time()))
            else:
                left.append(number)
        return left

    def _launch(self, jobs: Sequence[Sequence[str]], left: Sequence[int]) -> None:
        self.job.numbers = left
        size = self.max_batch_size or len(left) or 1
        for start in range(0, len(left), size):
            self.launcher.launch([jobs[number] for number in left[start : start + size]], initial_job_idx=start)

    @contextmanager
    def _watched(self, overview: Overview) -> Iterator[None]:
        """Have the runs tell how they get on: in this process directly, from others through files."""
        overview.begin()
        if type(self.launcher).__module__ == f"{BASIC}launcher":
            self.job.overview = overview
            yield
            return
        here = "joblib" in type(self.launcher).__module__  # other launchers reach other machines, and log each run
        shared = self.folder / ".submitit"
        if not here:
            shared.mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="sweep-", dir=None if here else shared)).absolute()
        self.job.reports, self.job.quiet = folder, here
        try:
            with _watching(folder, overview):
                yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _watching(folder: Path, overview: Overview) -> Iterator[None]:
    """Pass on what other processes report in ``folder``, until the end and once more then."""
    over = threading.Event()

    def look() -> None:
        for report in read_reports(folder, overview.reports):
            overview.add(report)

    def watch() -> None:
        while not over.wait(PAUSE):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    line = Live(overview, console=overview.console, refresh_per_second=2, transient=True)
    with line if overview.console.is_terminal else nullcontext():
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            look()


def _stopped(error: Exception, overview: Overview) -> None:
    """Say of runs that were under way when the launcher stopped that they failed; if there are none, it did."""
    reason = f"the launcher stopped ({shorten(f'{type(error).__name__}: {error}', 200)})"
    under_way = [report for report in overview.reports.values() if report.state == "running"]
    for report in under_way:
        overview.add(replace(report, state="failed", reason=f"Under way when {reason}."))
    if not under_way:
        overview.end()
        lines = [f"Of the sweep {overview.left} runs are left, as {reason}.", *overview.failures]
        raise UserError("\n  ".join(lines)) from error
