"""The Weights & Biases logger: a W&B run that repeats the record.

All that is logged is read from the record, row by row in a fixed order, so a row has the same step however often a run
was interrupted: a resumed run leaves out the rows that its W&B run has. Whatever happens to wandb, the run goes on.
"""

import json
import os
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from omegaconf import OmegaConf
from pydantic import AfterValidator, PositiveFloat
from pydantic_core import PydanticCustomError

from fcl_bench.loggers import Log
from fcl_bench.result import Result, read_result
from fcl_bench.seeds import seeded

MOST_SAMPLES = 10_000  # in a table of predictions: W&B draws no more
LONGEST_TAG = 64


def _named(most: int, forbidden: str) -> AfterValidator:
    """Names as W&B takes them."""
    wanted = f"a name of 1 to {most} characters{' without ' * bool(forbidden)}{' '.join(forbidden)}"

    def check(name: str) -> str:
        if not 0 < len(name) <= most or set(name) & set(forbidden):
            raise PydanticCustomError("name", wanted)
        return name

    return AfterValidator(check)


Project = Annotated[str, _named(128, "/\\#?%:")]
Tag = Annotated[str, _named(LONGEST_TAG, "")]
Table = tuple[list[str | int], list[list[Any]]]  # names of columns, rows


class WandB:
    """A W&B run for every run; the files of wandb lie in ``<output_dir>/wandb``."""

    def __init__(
        self,
        project: Project = "fcl_bench",
        entity: str | None = None,
        mode: Literal["online", "offline", "disabled"] | None = None,
        tags: list[Tag] | None = None,
        timeout: PositiveFloat = 60.0,
    ):
        """``mode=None`` is what WANDB_MODE says, else online if wandb knows an API key, else offline."""
        self.project, self.entity, self.mode, self.tags, self.timeout = project, entity, mode, tags or [], timeout

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Log]:
        """See :class:`fcl_bench.loggers.Logger`."""
        session = Session(folder)
        session.attempt(self._start, session)
        code = 1
        try:
            yield lambda result: session.attempt(session.log, result)
            session.attempt(session.complete)
            code = 0
        finally:
            session.close(code)

    def _start(self, session: "Session") -> None:
        import wandb

        wandb.setup(wandb.Settings(silent=True, console="off"))
        mode = self.mode or _usual_mode(wandb.setup().settings.mode)
        if mode == "online":
            try:
                session.run = self._online_run(session)
            except Exception as error:
                wandb.teardown()  # the run it has begun would be in the way
                session.run = self._run(session, "offline")
                session.warn(f"goes offline, as the service cannot be used: {error}")
        elif mode == "offline":
            session.run = self._run(session, mode)

    def _online_run(self, session: "Session") -> Any:
        import wandb

        if wandb.login(prompt=False, verify=False):
            return self._run(session, "online")
        if self.mode == "online":
            raise RuntimeError("there is no API key, which `wandb login` would ask for")
        return self._run(session, "offline")

    def _run(self, session: "Session", mode: Literal["online", "offline"]) -> Any:
        import wandb

        result = session.begun
        names = (result[key] for key in ("dataset", "backbone", "track", "protocol"))
        tags = [name[:LONGEST_TAG] for name in (*names, result["stream"]["name"], *self.tags) if name]
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=self.timeout,
            finish_timeout=self.timeout,
            finish_timeout_raises=True,
        )
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=mode,
            id=session.id,
            name=session.name,
            group=result["stream"]["hash"],
            job_type=result["method"],
            tags=list(dict.fromkeys(tags)),
            config=session.config,
            dir=session.place,
            reinit="create_new",  # a run of the caller's own is left alone
            resume="allow" if mode == "online" and result["curves"]["average_accuracy"] else None,
            settings=settings,
        )
        for axis in ("task", "exchange"):
            run.define_metric(axis)
            run.define_metric(f"{axis}/*", step_metric=axis, summary="none")
        return run


class Session:
    """A record and its W&B run."""

    def __init__(self, folder: Path):
        self.folder, self.begun = folder, read_result(folder / "result.json")
        config: Any = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
        self.name = f"{self.begun['method']} seed {self.begun['seed']}"
        self.id = f"{self.begun['run_id']}-{self.begun['inputs'][:8]}"
        self.config, self.place = config, Path(config["output_dir"]).absolute()
        self.run: Any = None  # none if logging is disabled
        self._rows, self._failed = 0, False

    def attempt(self, function: Callable[..., None], *arguments: Any) -> None:
        """Do something with wandb, unless it has failed before; nobody's random numbers are touched."""
        if self._failed:
            return
        try:
            with seeded(0):
                function(*arguments)
        except Exception as error:
            self._failed = True
            self.warn(f"failed, the run goes on without it: {error!r}")

    def warn(self, text: str) -> None:
        """One line."""
        line = " ".join(f"W&B logging of {self.name} ({self.id}) {text}".split())
        warnings.warn(line, stacklevel=2)

    def log(self, result: Result) -> None:
        """All rows that are new."""
        if self.run is None:
            return
        for row in islice(rows(self.folder, result), self._rows, None):
            self.run.log(row, step=self._rows, commit=True)
            self._rows += 1
        self.run.summary.update(_of_all_classifiers(result, "metrics"))

    def complete(self) -> None:
        """What belongs to a whole run: tables and artifacts."""
        if self.run is None:
            return
        import wandb

        result = read_result(self.folder / "result.json")
        self.log(result)
        with _data_dir(self.place / "wandb"):
            found = {name: wandb.Table(*table) for name, table in tables(self.folder, result).items()}
            self.run.log(found, step=self._rows, commit=True)
            stream = wandb.Artifact(f"stream-{result['stream']['hash'][:16]}", "stream", metadata=result["stream"])
            stream.add_file(str(self.folder / "stream.json"))
            stream.add_file(str(self.folder / "stream.npz"))
            numbers = wandb.Artifact(f"result-{self.id}", "result")
            numbers.add_file(str(self.folder / "result.json"))
            for artifact in (stream, numbers):
                self.run.log_artifact(artifact)

    def close(self, exit_code: int) -> None:
        """End the W&B run, even one that has failed, and say where it is."""
        if self.run is None:
            return
        run, self._failed, failed = self.run, False, self._failed
        place = run.settings.sync_dir
        self.attempt(run.finish, exit_code)
        if not failed and not self._failed:
            print(
                f"W&B run, offline; to upload it: wandb sync {shlex.quote(place)}"
                if run.offline
                else f"W&B run: {run.url}"
            )


def rows(folder: Path, result: Result) -> Iterator[dict[str, Any]]:
    """The history: of every finished task its exchanges, then its metrics; both axes count from 1."""
    lines = map(json.loads, (folder / "exchanges.jsonl").read_text().splitlines())
    exchanges = list(enumerate(lines, start=1))
    curves = _of_all_classifiers(result, "curves")
    for task in range(len(result["curves"]["average_accuracy"])):
        for number, exchange in exchanges:
            if exchange["task"] == task:
                yield {"exchange": number, **{f"exchange/{name}": value for name, value in exchange.items()}}
        yield {"task": task + 1, **{f"task/{name}": curve[task] for name, curve in curves.items()}}


def tables(folder: Path, result: Result) -> dict[str, Table]:
    """The accuracy matrix and the predictions of the first samples, for each classifier."""
    found: dict[str, Table] = {}
    tasks = range(1, len(result["matrix"]) + 1)
    with np.load(folder / "predictions.npz") as saved:
        for prefix, scores in _classifiers(result).items():
            predictions = saved[f"predictions_{prefix[:-1]}" if prefix else "predictions"]
            samples = np.arange(min(len(saved["targets"]), MOST_SAMPLES))
            columns = np.stack([samples, saved["targets"][samples], *predictions[:, samples]], axis=1)
            matrix = [[task, *row] for task, row in zip(tasks, scores["matrix"], strict=True)]
            found[f"{prefix}matrix"] = (["after task", *(f"task {task}" for task in tasks)], matrix)
            found[f"{prefix}predictions"] = (
                ["sample", "target", *(f"after task {task}" for task in tasks)],
                columns.tolist(),
            )
    return found


def _classifiers(result: Result) -> dict[str, Any]:
    """The scores of a method's classifiers, by the prefix of their names: none for the classifier."""
    return {"": result, **{f"{name}/": scores for name, scores in result["other_classifiers"].items()}}


def _of_all_classifiers(result: Result, kind: Literal["curves", "metrics"]) -> dict[str, Any]:
    return {
        f"{prefix}{name}": value
        for prefix, scores in _classifiers(result).items()
        for name, value in scores[kind].items()
    }


def _usual_mode(configured: str) -> Literal["online", "offline", "disabled"]:
    """What wandb itself was configured for, by WANDB_MODE or its own files."""
    if configured == "disabled":
        return "disabled"
    return "offline" if configured in ("offline", "dryrun") else "online"


@contextmanager
def _data_dir(folder: Path) -> Iterator[None]:
    """Where wandb keeps the files of artifacts until they are uploaded, unless the user has chosen a place."""
    chosen = os.environ.get("WANDB_DATA_DIR")
    os.environ["WANDB_DATA_DIR"] = chosen or str(folder)
    try:
        yield
    finally:
        if chosen is None:
            del os.environ["WANDB_DATA_DIR"]
