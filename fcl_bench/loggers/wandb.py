"""The Weights & Biases logger: a W&B run that repeats the record.

All that is logged is read from the record, row by row in a fixed order, so a row has the same step however often a run
was interrupted: a resumed run leaves out the rows that its W&B run has. Whatever happens to wandb, the run goes on.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from omegaconf import OmegaConf
from pydantic import AfterValidator, PositiveFloat
from pydantic_core import PydanticCustomError

from fcl_bench.config.saved import saved_settings
from fcl_bench.loggers import Log
from fcl_bench.loggers.wandb_content import of_all_classifiers, rows, tables
from fcl_bench.loggers.wandb_service import Mode, call_with_timeout, data_dir, location, start_run, wandb_settings
from fcl_bench.run.result import Result, read_result
from fcl_bench.seeds import seeded

LONGEST_TAG = 64


def _named(most: int, forbidden: str) -> AfterValidator:
    """Names as W&B takes them."""
    wanted = f"a name of 1 to {most} characters"
    if forbidden:
        wanted += f" without {' '.join(forbidden)}"

    def check(name: str) -> str:
        if not 0 < len(name) <= most or set(name) & set(forbidden):
            raise PydanticCustomError("name", wanted)
        return name

    return AfterValidator(check)


Project = Annotated[str, _named(128, "/\\#?%:")]
Tag = Annotated[str, _named(LONGEST_TAG, "")]


class WandB:
    """A W&B run for every run; the files of wandb lie in ``<output_dir>/wandb``."""

    def __init__(
        self,
        project: Project = "fcl_bench",
        entity: str | None = None,
        mode: Mode | None = None,
        tags: list[Tag] | None = None,
        timeout: PositiveFloat = 60.0,
    ):
        """``mode=None`` is what WANDB_MODE says, else online if wandb knows an API key, else offline."""
        self.project = project
        self.entity = entity
        self.mode = mode
        self.tags = tags or []
        self.timeout = timeout

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Log]:
        """See :class:`fcl_bench.loggers.Logger`."""
        session = Session(folder, self.timeout)
        session.attempt(self._start, session)
        exit_code = 1
        try:
            yield lambda result: session.attempt(session.log, result)
            with data_dir(session.folder_of_wandb / "wandb"):
                session.attempt(call_with_timeout, self.timeout, session.complete)
            exit_code = 0
        finally:
            session.close(exit_code)

    def _start(self, session: "Session") -> None:
        session.run = start_run(self.mode, lambda mode: self._run(session, mode), session.warn)

    def _run(self, session: "Session", mode: Mode) -> Any:
        import wandb

        result = session.result_before
        resumed = bool(result["curves"]["average_accuracy"])
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=mode,
            id=session.id,
            name=session.name,
            group=result["stream"]["hash"],
            job_type=result["method"],
            tags=self._all_tags(result),
            config=session.config,
            dir=session.folder_of_wandb,
            reinit="create_new",  # a run of the caller's own is left alone
            resume="allow" if mode == "online" and resumed else None,
            settings=wandb_settings(self.timeout),
        )
        for axis in ("task", "exchange"):
            run.define_metric(axis)
            run.define_metric(f"{axis}/*", step_metric=axis, summary="none")
        return run

    def _all_tags(self, result: Result) -> list[str]:
        """What a reader filters by, then the user's own, each once."""
        names = [result[key] for key in ("dataset", "backbone", "track", "protocol")]
        names += [result["stream"]["name"], *self.tags]
        return list(dict.fromkeys(name[:LONGEST_TAG] for name in names if name))


class Session:
    """A record and its W&B run."""

    def __init__(self, record: Path, timeout: float):
        config: Any = OmegaConf.to_container(saved_settings(record / "config.yaml"))
        self.record = record
        self.timeout = timeout
        self.config = config
        self.folder_of_wandb = Path(config["output_dir"]).absolute()
        self.result_before = read_result(record / "result.json")
        self.name = f"{self.result_before['method']} seed {self.result_before['seed']}"
        self.id = f"{self.result_before['run_id']}-{self.result_before['inputs'][:8]}"
        self.run: Any = None  # none if logging is disabled
        self._rows = 0
        self._failed = False

    def attempt(self, function: Callable[..., None], *arguments: Any) -> None:
        """Do something with wandb, unless it has failed before; nobody's random numbers are touched."""
        if self._failed:
            return
        try:
            with seeded(0):
                function(*arguments)
        except Exception as error:
            self._failed = True
            kept = f"; what was logged is in {self.run.settings.sync_dir}" if self.run else ""
            self.warn(f"failed, the run goes on without it: {error!r}{kept}")

    def warn(self, text: str) -> None:
        """One line."""
        line = " ".join(f"W&B logging of {self.name} ({self.id}) {text}".split())
        warnings.warn(line, stacklevel=2)

    def log(self, result: Result) -> None:
        """All rows that are new."""
        if self.run is None:
            return
        for row in islice(rows(self.record, result), self._rows, None):
            self.run.log(row, step=self._rows, commit=True)
            self._rows += 1
        self.run.summary.update(of_all_classifiers(result, "metrics"))

    def complete(self) -> None:
        """What belongs to a whole run: tables and artifacts."""
        if self.run is None:
            return
        import wandb

        result = read_result(self.record / "result.json")
        self.log(result)
        logged = {name: wandb.Table(*table) for name, table in tables(self.record, result).items()}
        self.run.log(logged, step=self._rows, commit=True)
        stream = wandb.Artifact(f"stream-{result['stream']['hash'][:16]}", "stream", metadata=result["stream"])
        stream.add_file(str(self.record / "stream.json"))
        stream.add_file(str(self.record / "stream.npz"))
        numbers = wandb.Artifact(f"result-{self.id}", "result")
        numbers.add_file(str(self.record / "result.json"))
        for artifact in (stream, numbers):
            self.run.log_artifact(artifact)

    def close(self, exit_code: int) -> None:
        """End the W&B run, and say where it is; of one that has failed, silently."""
        if self.run is None:
            return
        run = self.run
        folder = run.settings.sync_dir
        if self._failed:
            with suppress(Exception):
                call_with_timeout(self.timeout, run.finish, exit_code)
            return
        patience = 1.5 * self.timeout  # wandb itself gives up after the timeout
        self.attempt(call_with_timeout, patience, run.finish, exit_code)
        if not self._failed:
            print(location(run, folder))
