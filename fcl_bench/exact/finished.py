"""A finished run opened again: the settings of its record, its data, its stream and its last state."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.compose import build
from fcl_bench.config.older import check_recorded, present
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.message_classes import declared_classes
from fcl_bench.method import facts
from fcl_bench.run.checkpoint import Checkpoint
from fcl_bench.run.checkpoints import read
from fcl_bench.run.result import Result, read_result
from fcl_bench.run.scenario import Plan, Scenario, materialise, plan

PLACES = ("data_dir", "cache_dir")  # the only settings that may be others than those of the record
NEEDED = ("run_id", "method", "config", "stream", "inputs", "matrix")


@dataclass(frozen=True)
class FinishedRun:
    """A complete record, its configuration here, and the plan of the run; no input was read yet."""

    path: Path  # of result.json
    result: Result
    config: DictConfig
    planned: Plan

    @cached_property
    def scenario(self) -> Scenario:
        """With the inputs, which are computed where the cache does not have them."""
        return materialise(self.config, self.planned, lambda what: lambda done, total: None)

    @cached_property
    def stand_in(self) -> Any:
        """The method on a backbone of one feature: what it declares, before inputs are read."""
        return build(self.config.method, self.planned.backbone.stand_in())

    @property
    def has_checkpoint(self) -> bool:
        """Whether the record came with its last state."""
        return self._checkpoint_path.exists()

    @property
    def _checkpoint_path(self) -> Path:
        return self.path.parent / "checkpoint" / "checkpoint.safetensors"

    def checkpoint(self) -> Checkpoint:
        """All that the run had gathered at its end."""
        path = self._checkpoint_path
        if not self.has_checkpoint:
            raise ConfigError(f"There is no checkpoint {path}, and without one no state: run it again.")
        try:
            checkpoint = read(path, declared_classes(type(self.stand_in)))
        except UserError as error:
            raise ConfigError(f"The checkpoint {path} cannot be read ({error}): run it again.") from error
        if (checkpoint.run, checkpoint.inputs) != (self.result["run_id"], self.result["inputs"]):
            raise ConfigError(f"The checkpoint {path} is that of another run: run it again.")
        if checkpoint.progress.task != len(self.planned.stream.tasks):
            raise ConfigError(f"The checkpoint {path} is not that of a finished run: run it again.")
        return checkpoint

    def refuse_unless_exact(self, *abilities: str) -> None:
        """Raise a :class:`ConfigError` unless the record is one of an exact method, all of whose clients took part."""
        name = self.result["method"]
        if not facts(self.stand_in)["exact"]:
            raise ConfigError(
                f"The record {self.path} is one of {name}, which with these settings does not declare to be exact: "
                "only answers of exact methods can be compared with others."
            )
        missing = [ability for ability in abilities if not hasattr(self.stand_in, ability)]
        if missing:
            raise ConfigError(
                f"The record {self.path} is one of {name}, which is exact but does not offer {', '.join(missing)}: "
                "see docs/adding-a-method.md."
            )
        if build(self.config.privacy).adds_noise:
            raise ConfigError(
                f"In the run of {self.path} uploads have noise (privacy={self.config.privacy.name}): its answer is not "
                "the exact one."
            )
        losses = build(self.config.federation).losses
        if losses:
            settings = ", ".join(f"federation.{name}={value:g}" for name, value in losses.items())
            raise ConfigError(
                f"In the run of {self.path} some clients did not take part ({settings}): its answer is not one on all "
                "samples."
            )


def opened(path: Path, overrides: Sequence[str] = ()) -> FinishedRun:
    """The run in a folder, or of a ``result.json``; a :class:`ConfigError` says what is wrong with it."""
    record = path / "result.json" if path.is_dir() else path
    result = _complete_result(record)
    config = _config_here(result, record, overrides)
    try:
        planned = plan(config)
    except UserError as error:
        raise ConfigError(str(error)) from error
    if planned.identity != result["inputs"] or planned.stream.hash != result["stream"]["hash"]:
        raise ConfigError(
            f"The contents of data set, weights or stream are no longer those of the record {record}: "
            "name the ones it was made with by data_dir=FOLDER."
        )
    return FinishedRun(record, result, config, planned)


def settings_of(result: Result) -> DictConfig:
    """The configuration in a record."""
    config = OmegaConf.create(result["config"])
    assert isinstance(config, DictConfig)
    return config


def is_override(word: str) -> bool:
    """Whether a word of the command line is a setting instead of a path.

    >>> is_override("data_dir=/data"), is_override("runs/digits")
    (True, False)
    """
    return re.match(r"[\w.]+=", word) is not None and not Path(word).exists()


def _complete_result(record: Path) -> Result:
    if not record.exists():
        raise ConfigError(f"There is no record {record}: name the folder of a finished run, or its result.json.")
    try:
        result = read_result(record)
    except UserError as error:
        raise ConfigError(str(error)) from error
    if result.get("status") != "complete":
        raise ConfigError(f"The run of {record} is not finished: go on with it first, by its own command.")
    missing = [name for name in NEEDED if name not in result]
    if missing:
        raise ConfigError(f"The record {record} is damaged (there is no {missing[0]}): remove it and run again.")
    return result


def _config_here(result: Result, record: Path, overrides: Sequence[str]) -> DictConfig:
    """The settings of a record; its own manifest stands for the stream, as a manifest elsewhere may have moved."""
    config = present(settings_of(result), result["method"])
    for override in overrides:
        _set_place(config, override)
    try:
        check_recorded(config)
    except ConfigError as error:
        raise ConfigError(f"The settings of the record {record} do not fit this version: {error}") from error
    if (record.parent / "stream.npz").exists() and "manifest" in config.stream:
        config.stream.manifest = str(record.parent)
    return config


def _set_place(config: DictConfig, override: str) -> None:
    name, _, value = override.partition("=")
    if name not in PLACES:
        raise ConfigError(
            f"Expected data_dir=FOLDER or cache_dir=FOLDER, but got '{override}': all other settings are those of the "
            "record."
        )
    config[name] = value
    if name in config.dataset:
        config.dataset[name] = value
