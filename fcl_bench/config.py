"""The configuration: composed by Hydra, checked against the signatures of what it names, never rewritten.

Every node with a ``_target_`` is checked before anything is built: an unknown key is named with the closest known one, and
each value must fit the type annotation of its parameter (pydantic reads ranges and choices from there).
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError

from fcl_bench.catalogue import packages
from fcl_bench.errors import ConfigError, UserError, choices
from fcl_bench.explain import explained

ROOT: dict[str, Any] = {
    "seed": Annotated[int, Field(ge=0, lt=2**63)],
    "output_dir": Path,
    "data_dir": Path,
    "cache_dir": Path | None,
    "resume": bool,
    "limit_train": PositiveInt | None,
    "limit_test": PositiveInt | None,
}
NOT_RESULT = {"output_dir", "data_dir", "cache_dir", "resume", "logger", "transport"}  # cannot change what is computed
NOT_RESULT_LOCAL = {"accelerator"}
HYDRA_KEYS = {"_target_", "_partial_", "_recursive_", "_convert_", "_args_"}
SUGGESTIONS = {"dataset.input_size"}  # read by other groups through interpolation, not by the target


def search_path() -> list[str]:
    """The override that lets Hydra find the configuration of installed third parties."""
    return [f"hydra.searchpath=[{','.join(f'pkg://{package}' for package in packages()[1:])}]"]


def composed(*overrides: str) -> DictConfig:
    """The configuration for some overrides, checked; what ``python -m fcl_bench OVERRIDES`` would run."""
    GlobalHydra.instance().clear()
    with explained(), initialize_config_module("fcl_bench.configs", version_base="1.3"):
        config = compose("config", overrides=[*search_path(), *overrides])
    check(config)
    return config


def check(config: DictConfig) -> None:
    """Raise a :class:`ConfigError` for the first value that does not fit."""
    for name, annotation in ROOT.items():
        _fit(config[name], annotation, name)
    for name, node in config.items():
        if isinstance(node, DictConfig):
            _check_node(node, str(name))
    if config.backbone.trainable and getattr(get_object(config.method["_target_"]), "needs_frozen_backbone", False):
        raise ConfigError(
            f"Expected a frozen backbone for method={method_name(config)}, which learns in closed form on features, but got "
            "backbone.trainable=true: set backbone.trainable=false."
        )


def build(node: DictConfig, *arguments: Any, **keywords: Any) -> Any:
    """What the node describes, with further arguments; values arrive as plain Python objects."""
    try:
        return instantiate(node, *arguments, _convert_="all", **keywords)
    except InstantiationException as error:
        if isinstance(error.__cause__, UserError):
            raise error.__cause__ from None
        raise


def run_id(config: DictConfig) -> str:
    """``seed<k>-<hash>``: equal for two configurations that must give the same result."""
    content: Any = OmegaConf.to_container(config, resolve=True)
    content = {key: value for key, value in content.items() if key not in NOT_RESULT}
    content["local"] = {key: value for key, value in content["local"].items() if key not in NOT_RESULT_LOCAL}
    content["dataset"].pop("data_dir", None)
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return f"seed{config.seed}-{digest[:8]}"


def method_name(config: DictConfig) -> str:
    """The name of a method in folders and tables: that of its file."""
    return config.method["_target_"].split(".")[-2]


def _check_node(node: DictConfig, path: str) -> None:
    if "_target_" in node:
        known = dict(_parameters(get_object(node["_target_"])))
        for key in node:
            place = f"{path}.{key}"
            if key in HYDRA_KEYS or place in SUGGESTIONS:
                continue
            if key not in known:
                raise ConfigError(f"There is no setting {place}; {path} has: {choices(key, known)}.")
            _fit(_value(node, key), known[key], place)
    for key, child in node.items_ex(resolve=False):
        child = _value(node, key) if OmegaConf.is_interpolation(node, key) else child
        if isinstance(child, DictConfig):
            _check_node(child, f"{path}.{key}")


def _parameters(target: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Names and annotations of what the target accepts by keyword."""
    function = target.__init__ if inspect.isclass(target) else target  # type: ignore[misc]
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(target).parameters.values():
        yield parameter.name, hints.get(parameter.name, Any)


def _value(node: DictConfig, key: Any) -> Any:
    try:
        return node[key]
    except OmegaConfBaseException as error:
        raise ConfigError(str(error).splitlines()[0]) from None


def _fit(value: Any, annotation: Any, path: str) -> None:
    """Check a plain value; nested nodes are checked against their own target."""
    if isinstance(value, DictConfig):
        return
    if OmegaConf.is_config(value):
        value = tuple(value)
    try:
        adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except Exception:  # an annotation pydantic has no schema for says nothing about plain values
        return
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigError(f"Expected {path} to fit: {reason[0].lower()}{reason[1:]}, but got {value!r}.") from None
