"""A saved stream is replayed as it is; a setting beside ``stream.manifest`` that says otherwise is an error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from fcl_bench.config.compose import keys
from fcl_bench.errors import ConfigError
from fcl_bench.stream import read_parameters

GROUPS = {"stream": "name", "partition": "partition"}  # group -> what a manifest calls the choice
ABSENT = {"reserved": 0}  # what the parameters do not name


def refuse_contradictions(config: DictConfig, overrides: Sequence[str]) -> None:
    """Raise a :class:`ConfigError` for the first of the ``overrides`` that the manifest to be replayed contradicts.

    Settings that nobody gave have their defaults, which say nothing.
    """
    manifest = config.stream.get("manifest")
    if manifest is None:
        return
    parameters = ABSENT | read_parameters(Path(manifest))
    for key in sorted(keys(overrides)):
        group, _, setting = key.partition(".")
        name = setting or GROUPS.get(group)
        if group in GROUPS and name in parameters and setting != "manifest":
            given = config[group].get(setting or "name")
            _compare(key, given, parameters[name], manifest)


def _compare(key: str, given: Any, saved: Any, manifest: str) -> None:
    if given != saved:
        raise ConfigError(
            f"Expected {key}={saved}, as the stream in {manifest} was made, but got {given}: "
            f"leave {key} out, or stream.manifest."
        )
