"""The form of a complete ``result.json``: what it must have, and of which types."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from fcl_bench.config.settings_node import SettingsNode
from fcl_bench.errors import UserError
from fcl_bench.run.result import Result

HEADLINE = "average_accuracy"  # the one metric that every record has
LARGEST = 1e18  # no byte was ever counted as often
Settings = dict[str, Any]  # by dotted names
Number = Annotated[float, Field(allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]


class ScoresContent(BaseModel, strict=True):
    """What a record says about a classifier, and under ``views`` again for other tests of the tasks."""

    metrics: dict[str, Number | None]
    curves: dict[str, list[Number | None]]
    matrix: list[list[Number | None]]
    views: dict[str, "ScoresContent"] = {}

    @model_validator(mode="after")
    def is_whole(self) -> "ScoresContent":
        """The headline metric is there, and every curve and row has a value per task."""
        if HEADLINE not in self.metrics:
            raise PydanticCustomError("metrics", f"there is no {HEADLINE}")
        if HEADLINE not in self.curves:
            raise PydanticCustomError("curves", f"there is no curve of {HEADLINE}")
        tasks = len(self.matrix)
        for name, curve in self.curves.items():
            if len(curve) != tasks:
                raise PydanticCustomError("curves", f"the curve of {name} has not a value for each of {tasks} tasks")
        if tasks == 0 or any(len(row) != tasks for row in self.matrix):
            raise PydanticCustomError("matrix", "the matrix has not a value for every two tasks")
        return self


class StreamContent(BaseModel, strict=True):
    """What a record says about the stream."""

    name: str
    partition: str
    tasks: int
    hash: str


class MethodContent(BaseModel, strict=True):
    """The settings of a method."""

    target: str = Field(alias="_target_")
    name: str | None = None


class ConfigContent(BaseModel, strict=True):
    """The settings of a run."""

    seed: int
    dataset: Settings
    backbone: Settings
    federation: Settings
    method: MethodContent
    stream: Settings = {}
    partition: Settings = {}
    privacy: Settings = {}
    settings: SettingsNode | None = None
    limit_classes: int | None = None
    limit_train: int | None
    limit_test: int | None


class Content(ScoresContent):
    """What a complete ``result.json`` must have for a leaderboard."""

    run_id: str
    method: str
    dataset: str
    backbone: str
    seed: int
    protocol: str | None
    track: str
    facts: dict[str, bool] = {}
    stream: StreamContent
    other_classifiers: dict[str, ScoresContent] = {}
    traffic: dict[str, Number] = {}
    seconds: dict[str, Number] = {}
    environment: Settings
    command: str | None = None
    inputs: str | None = None
    evidence: Settings = {}
    config: ConfigContent


def check_form(result: Result, path: Path) -> None:
    """Raise a :class:`UserError` that names the first thing which is not as it must be."""
    try:
        Content.model_validate(result)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or first["type"]
        raise damaged(path, f"{where}: {first['msg']}") from error


def damaged(path: Path, reason: str) -> UserError:
    """What to say of a record that is not whole."""
    return UserError(f"The record {path} is damaged ({reason}): remove it and run again.")
