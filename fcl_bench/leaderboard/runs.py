"""Records as a leaderboard needs them: the conditions of a run, the settings of its method, and its result."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from fcl_bench.config.compose import essence
from fcl_bench.config.protocol import flattened
from fcl_bench.errors import UserError
from fcl_bench.leaderboard.columns import COLUMNS
from fcl_bench.run.result import Result, read_result

Settings = dict[str, Any]  # by dotted names
Number = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class Run:
    """One complete record."""

    method: str
    draw: str  # what chance decided, seeds and stream: two runs of one setting that agree in it are the same run
    conditions: Settings  # all that must be equal for two runs to be compared
    settings: Settings  # of the method
    values: dict[str, float | None]  # by metric; None is undefined, such as retention after a single task
    result: Result
    path: Path  # of the record


class StreamContent(BaseModel):
    """Of a stream."""

    name: str
    partition: str
    tasks: int
    hash: str


class ConfigContent(BaseModel):
    """Of the settings."""

    seed: int
    dataset: Settings
    backbone: Settings
    federation: Settings
    method: Settings
    limit_train: int | None
    limit_test: int | None


class Content(BaseModel, strict=True):
    """What a complete ``result.json`` must have for a leaderboard."""

    run_id: str
    method: str
    dataset: str
    backbone: str
    seed: int
    protocol: str | None
    track: str
    facts: dict[str, bool]
    stream: StreamContent
    metrics: dict[str, Number | None]
    curves: dict[str, list[Number | None]]
    matrix: list[list[Number | None]]
    environment: Settings
    config: ConfigContent

    @model_validator(mode="after")
    def is_whole(self) -> "Content":
        """Every metric is there, and every curve and row has a value per task."""
        tasks = len(self.matrix)
        for name in COLUMNS:
            if name not in self.metrics:
                raise PydanticCustomError("metrics", f"there is no {name}")
            if len(self.curves.get(name, ())) != tasks:
                raise PydanticCustomError("curves", f"the curve of {name} has not a value for each of {tasks} tasks")
        if tasks == 0 or any(len(row) != tasks for row in self.matrix):
            raise PydanticCustomError("matrix", "the matrix has not a value for every two tasks")
        return self


@dataclass(frozen=True)
class Gathered:
    """What was found below some folders."""

    runs: tuple[Run, ...]
    interrupted: int
    problems: tuple[str, ...]  # a sentence for all that cannot be used


def gather(places: Iterable[Path]) -> Gathered:
    """Every record below the given folders, or given directly; each file once."""
    runs, interrupted, problems = [], 0, []
    for path in _records(places):
        try:
            run = read_run(path)
        except UserError as error:
            problems.append(str(error))
        else:
            interrupted += run is None
            runs += [run] if run else []
    return Gathered(tuple(runs), interrupted, tuple(problems))


def read_run(path: Path) -> Run | None:
    """The run of a ``result.json``; None if it was interrupted."""
    if not path.exists():
        raise UserError(f"There is no file or folder {path}: name folders of runs, or records.")
    result = read_result(path)
    try:
        return run_of(result, path) if result["status"] == "complete" else None
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc'])) or first['type']}: {first['msg']}"
        raise UserError(f"The record {path} is damaged ({reason}): remove it and run again.") from error


def run_of(result: Result, path: Path) -> Run:
    """What of a record matters here: neither what follows from the seed nor what cannot change a result."""
    Content.model_validate(result)
    config, stream = essence(result["config"]), essence(result["stream"])
    rest = {key: config[key] for key in ("dataset", "backbone", "federation", "limit_train", "limit_test")}
    conditions = {
        **{key: result[key] for key in ("dataset", "backbone", "track", "protocol")},
        "stream": stream["name"],
        **{key: value for key, value in stream.items() if key not in ("name", "seed", "hash")},
        **{key: value for key, value in flattened(rest).items() if key != "backbone.seed"},
    }
    values = {key: result["metrics"][key] for key in COLUMNS}
    return Run(
        method=result["method"],
        draw=f"{config['seed']} {config['backbone'].get('seed')} {stream['hash']}",
        conditions=conditions,
        settings=flattened(config["method"]),
        values={key: None if value is None else float(value) for key, value in values.items()},
        result=result,
        path=path,
    )


def _records(places: Iterable[Path]) -> Iterator[Path]:
    found = (path for place in places for path in (sorted(place.rglob("result.json")) if place.is_dir() else [place]))
    yield from {path.resolve(): path for path in found}.values()
