"""Sweeps: all combinations of some values, by any launcher of Hydra.

Finished runs are left out, an overview says how far the others are, and failures are listed at the end.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf
from rich.live import Live

from fcl_bench.cli.job import SweepJob, read_reports, write_report
from fcl_bench.cli.leader import Leader, folder_of_a_sweep, workers_of_joblib
from fcl_bench.cli.overview import Overview, Report
from fcl_bench.cli.verbs import VERBS
from fcl_bench.config.compose import settings_of
from fcl_bench.config.explain import explained
from fcl_bench.config.load import config_loader, search_path
from fcl_bench.data.file_states import FileStates
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.files import writing_to
from fcl_bench.interruption import apart, interrupted, with_last_words
from fcl_bench.run.environment import changes_since
from fcl_bench.run.finished_runs import find_finished

BASIC = "hydra._internal.core_plugins.basic_"  # where Hydra has its own sweeper and launcher
PAUSE = 0.5  # seconds between looks at the reports of other processes


def sweep(overrides: Sequence[str]) -> None:
    """Do all runs that are not finished; a :class:`UserError` lists the failures."""
    with config_loader() as loader:
        with explained(VERBS):
            words = [search_path(), *map(_as_choice, overrides)]
            settings = loader.load_configuration("config", words, run_mode=RunMode.MULTIRUN)
            overview = Overview(_combinations(loader, settings))
            left = _unfinished(loader, settings, overview)
        _write_settings(settings)
        try:
            with with_last_words(partial(_tell_what_is_left, overview)), _watched_job(settings, left, overview) as job:
                _launch(loader, settings, job, overview.jobs)
        except Exception as error:  # of the launcher, such as a process that was killed
            if interrupted():
                raise
            _fail_runs_under_way(error, overview)
    overview.end()
    if overview.failures:
        count = f"{len(overview.failures)} of {len(overview.jobs)} runs failed:"
        raise UserError("\n  ".join([count, *overview.failures]))


def _tell_what_is_left(overview: Overview) -> None:
    overview.end()
    for line in overview.failures:
        print(f"fcl_bench: {line}", file=sys.stderr)


def _as_choice(word: str) -> str:
    """Make ``group.key=value`` a sweep of one value, as Hydra sets plain values before a swept group has a choice.

    Lists of values are sweeps already. ``null`` stays plain: Hydra knows no sweep of it alone.
    """
    key, _, value = word.partition("=")
    plain = "." in key and not key.lstrip("+~").startswith("hydra.") and value not in ("", "null")
    return f"{key}=choice({value})" if plain and not _is_sweep(word) else word


def _is_sweep(word: str) -> bool:
    try:
        return bool(OverridesParser.create().parse_override(word).is_sweep_override())
    except HydraException:  # where it is used, it will be named
        return False


def _combinations(loader: ConfigLoader, settings: DictConfig) -> list[list[str]]:
    """The overrides of each run: those of the command line, and those that an experiment sweeps over."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # Hydra reloads it at its start

    sweeper = settings.hydra.sweeper
    if sweeper["_target_"] != f"{BASIC}sweeper.BasicSweeper":
        raise ConfigError(f"A sweep tries all combinations, but got hydra.sweeper={sweeper['_target_']}: leave it out.")
    words = [f"{key}={value}" for key, value in (sweeper.params or {}).items()]
    overrides = OverridesParser.create(config_loader=loader).parse_overrides([*words, *settings.hydra.overrides.task])
    return BasicSweeper.split_arguments(overrides, None)[0]


def _unfinished(loader: ConfigLoader, settings: DictConfig, overview: Overview) -> list[int]:
    """The runs to launch; a setting that does not exist in any of them is an error before the first one starts."""
    left = []
    states = FileStates()
    for number, overrides in enumerate(overview.jobs):
        config = settings_of(loader.load_sweep_config(settings, list(overrides)), overrides)
        try:
            before = find_finished(config, states)
        except UserError:
            before = None  # the run itself will say so
        if before:
            overview.add(Report(number, "skipped", time.time(), note=changes_since(before[0])))
        else:
            left.append(number)
    return left


def _write_settings(settings: DictConfig) -> None:
    folder = Path(settings.hydra.sweep.dir)
    with writing_to(folder, "output_dir"):
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(settings, folder / "multirun.yaml")


def _launch(loader: ConfigLoader, settings: DictConfig, job: SweepJob, jobs: Sequence[Sequence[str]]) -> None:
    from hydra._internal.callbacks import Callbacks

    context = HydraContext(config_loader=loader, callbacks=Callbacks(settings))
    launcher: Any = Plugins.instance().instantiate_launcher(hydra_context=context, task_function=job, config=settings)
    if _uses_joblib(settings) and job.leader:
        launcher.joblib["initializer"] = job.leader.end_with_it  # also of a worker that never gets a run
    size = settings.hydra.sweeper.max_batch_size or len(jobs)
    with workers_of_joblib() if _uses_joblib(settings) and job.numbers else nullcontext():
        for start in range(0, len(job.numbers), size):
            batch = [jobs[number] for number in job.numbers[start : start + size]]
            launch = partial(launcher.launch, batch, initial_job_idx=start)
            if _starts_processes(settings):
                apart(launch)
            else:
                launch()


@contextmanager
def _watched_job(settings: DictConfig, left: Sequence[int], overview: Overview) -> Iterator[SweepJob]:
    """What each run does, with reports to the overview: in this process directly, from others through files."""
    overview.begin()
    if _is_here(settings):
        yield SweepJob(left, overview.add, above=overview)
        return
    joblib = _uses_joblib(settings)  # other launchers may reach other machines, and keep a log of each run
    queued = not joblib and "Local" not in settings.hydra.launcher["_target_"]  # such runs go on without the sweep
    shared = None if joblib else Path(settings.hydra.sweep.dir)
    with folder_of_a_sweep(shared) as folder, _watching(folder, overview):
        leader = None if queued else Leader(os.getpid(), folder)
        yield SweepJob(left, partial(write_report, folder), quiet=joblib, leader=leader)


def _uses_joblib(settings: DictConfig) -> bool:
    return "joblib" in settings.hydra.launcher["_target_"]


def _starts_processes(settings: DictConfig) -> bool:
    return not _is_here(settings) and settings.hydra.launcher.get("n_jobs") != 1


def _is_here(settings: DictConfig) -> bool:
    """Whether the runs of a sweep are carried out one by one in this process."""
    return settings.hydra.launcher["_target_"] == f"{BASIC}launcher.BasicLauncher"


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


def _fail_runs_under_way(error: Exception, overview: Overview) -> None:
    """Count runs that were under way when the launcher stopped as failed; if there are none, the sweep has failed."""
    reason = f"the launcher stopped ({shorten(f'{type(error).__name__}: {error}', 200)})"
    under_way = [report for report in overview.reports.values() if report.state == "running"]
    for report in under_way:
        overview.add(replace(report, state="failed", note=f"Under way when {reason}."))
    if not under_way:
        overview.end()
        lines = [f"Of the sweep {overview.left} runs are left, as {reason}.", *overview.failures]
        raise UserError("\n  ".join(lines)) from error
