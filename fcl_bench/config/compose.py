"""The configuration: composed by Hydra, and checked against the signatures of what it names.

Every node with a ``_target_`` is checked before anything is built: an unknown key is named with the closest known one,
and each value must fit the type annotation of its parameter (pydantic reads ranges and choices from there).
"""

import copy
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from pydoc import ErrorDuringImport, locate
from typing import Annotated, Any, Unpack, get_args, get_origin, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError

from fcl_bench.config.catalogue import GROUPS, config_file
from fcl_bench.config.explain import explained
from fcl_bench.config.load import load
from fcl_bench.config.protocol import check_protocol
from fcl_bench.config.run_id import check_method_name, method_name
from fcl_bench.config.settings import check_settings
from fcl_bench.errors import ConfigError, UserError, choices

ROOT_SETTINGS: dict[str, Any] = {
    "seed": Annotated[int, Field(ge=0, lt=2**63)],
    "output_dir": Path,
    "data_dir": Path,
    "cache_dir": Path | None,
    "resume": bool,
    "threads": PositiveInt | None,
    "limit_classes": PositiveInt | None,
    "limit_train": PositiveInt | None,
    "limit_test": PositiveInt | None,
    "settings": DictConfig | None,
    "protocol": str | None,
}
NOT_OF_A_RUN = ("hydra", "published")  # Hydra's own settings, and what a protocol says about itself
META_GROUPS = ("settings", "protocol", "experiment")  # they set others
GROUP_NODES = [group for group in GROUPS if group not in (*META_GROUPS, "method")]
NODES = [*GROUP_NODES, "method"]  # the method last, as it refers to others
HYDRA_KEYS = {"_target_", "_partial_", "_recursive_", "_convert_", "_args_"}
HINTS = ("input_size", "lr")  # settings of a data set that other groups read through interpolation, not the target
SEARCH = "search"  # setting of a method: where tune looks for better values


def composed(*overrides: str) -> DictConfig:
    """The configuration for some overrides, checked; what ``python -m fcl_bench OVERRIDES`` would run."""
    with explained():
        config = settings_of(load(overrides), overrides)
    check(config)
    return config


def settings_of(config: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """The settings of a run: a copy of what Hydra has composed for some overrides, without its own settings.

    What ``training.yaml`` sets for SGD is left out if another optimizer was chosen which does not have it. What stands
    in the overrides remains: :func:`check` will say that it does not exist. Where a method's values are searched is not
    a setting of a run.
    """
    _refuse_search(overrides)
    settings = OmegaConf.masked_copy(config, [key for key in map(str, config) if key not in NOT_OF_A_RUN])
    _leave_out_search(settings)
    optimizer = OmegaConf.select(settings, "method.optimizer")
    default = OmegaConf.create(config_file("training") or "").optimizer
    if not isinstance(optimizer, DictConfig) or optimizer.get("_target_") == default["_target_"]:
        return settings
    accepted = dict(parameters(_target(optimizer)))
    with open_dict(optimizer):
        for key, value in default.items():
            inherited = optimizer.get(key) == value and f"method.optimizer.{key}" not in keys(overrides)
            if inherited and key not in accepted and key not in HYDRA_KEYS:
                del optimizer[key]
    return settings


def _refuse_search(overrides: Sequence[str]) -> None:
    words: Any = OmegaConf.to_container(overrides) if OmegaConf.is_config(overrides) else overrides
    for key in sorted(keys(words)):
        if f"{key}.".startswith(f"method.{SEARCH}."):
            raise ConfigError(f"Only python -m fcl_bench tune reads {key}: leave it out, or set the value itself.")


def _leave_out_search(settings: DictConfig) -> None:
    method = settings.get("method")
    if isinstance(method, DictConfig) and SEARCH in method:
        with open_dict(method):
            del method[SEARCH]


def keys(overrides: Iterable[str]) -> set[str]:
    """The settings that overrides name.

    >>> sorted(keys(["seed=1", "+method.gamma=2", "~protocol"]))
    ['method.gamma', 'protocol', 'seed']
    """
    return {override.partition("=")[0].lstrip("+~") for override in overrides}


def check(config: DictConfig, free: Collection[str] = ()) -> None:
    """Raise a :class:`ConfigError` for the first value that does not fit; a protocol leaves what is ``free`` alone."""
    for name in map(str, config):
        if name not in ROOT_SETTINGS and name not in NODES:
            raise ConfigError(f"There is no setting '{name}'; a run has: {choices(name, [*ROOT_SETTINGS, *NODES])}.")
    for name, annotation in ROOT_SETTINGS.items():
        _fitting(_value(config, name, name), annotation, name)
    for name in NODES:  # a wrong value is named where it was given
        _check_node(_value(config, name, name), name)
    check_method_name(config)
    if getattr(_target(config.method), "needs_frozen_backbone", False):
        _check_frozen(config)
    if config.protocol is not None:
        check_protocol(config, free)
    check_settings(config)


def _check_frozen(config: DictConfig) -> None:
    """For a method that does not train the backbone; it learns on features unless it takes images."""
    takes_images = getattr(_target(config.method), "takes_images", False)
    if config.backbone.trainable:
        why = "which does not train it" if takes_images else "which learns on features"
        raise ConfigError(
            f"Expected a frozen backbone for method={method_name(config)}, {why}, "
            "but got backbone.trainable=true: set backbone.trainable=false."
        )
    if config.backbone.get("clients_hold") == "images" and not takes_images:
        raise ConfigError(
            f"Expected clients to hold features for method={method_name(config)}, which learns on them, "
            "but got backbone.clients_hold=images: set backbone.clients_hold=features."
        )


def build(node: DictConfig, *arguments: Any, **keywords: Any) -> Any:
    """What the node describes, with further arguments; values arrive as their annotations say, a path as a ``Path``."""
    hints = dict(parameters(_target(node)))
    if "name" in node and "name" not in hints:  # a method need not know its name
        node = copy.copy(node)
        with open_dict(node):
            del node["name"]
    typed = {key: _fitting(node[key], hints[key], key) for key in map(str, node) if key in hints}
    plain = {key: value for key, value in typed.items() if not OmegaConf.is_config(value)}
    try:
        return instantiate(node, *arguments, _convert_="all", **plain, **keywords)
    except InstantiationException as error:
        if isinstance(error.__cause__, UserError):
            raise error.__cause__ from None
        raise


@dataclass(frozen=True)
class Maker:
    """Makes what some settings describe, a new one each time; the settings are read and checked only once."""

    settings: dict[str, Any]

    def __call__(self, *arguments: Any) -> Any:
        """A new object, which shares nothing with those made before."""
        return copy.deepcopy(self._prototype)(*arguments)

    @cached_property
    def _prototype(self) -> Callable[..., Any]:
        return build(OmegaConf.create(self.settings), _partial_=True)

    def __reduce__(self) -> tuple[type["Maker"], tuple[dict[str, Any]]]:
        """Only the settings travel to other processes."""
        return Maker, (self.settings,)


def _check_node(node: Any, path: str) -> None:
    if not isinstance(node, DictConfig):
        raise ConfigError(f"Expected {path} to be a group of settings, but got {node!r}.")
    if "_target_" in node:
        known = dict(parameters(_target(node)))
        if path == "method":
            known.setdefault("name", Annotated[str, Field(min_length=1)])
        for key in map(str, node):
            place = f"{path}.{key}"
            if key in HYDRA_KEYS or (path == "dataset" and key in HINTS):
                continue
            if key not in known:
                raise ConfigError(f"There is no setting '{place}'; {path} has: {choices(key, known)}.")
            _fitting(_value(node, key, place), known[key], place)
    if path == "method":
        for key in _required(_target(node)):
            _value(node, key, f"{path}.{key}")
    for key in map(str, node):
        child = _value(node, key, f"{path}.{key}")
        if isinstance(child, DictConfig):
            _check_node(child, f"{path}.{key}")


def _target(node: DictConfig) -> Callable[..., Any]:
    """What ``_target_`` names."""
    name = node.get("_target_", "nothing")
    try:
        found = locate(name)
    except ErrorDuringImport as error:
        if isinstance(error.value, KeyboardInterrupt):
            raise error.value from None
        raise ConfigError(f"Cannot import _target_={name}: {error.value!r}.") from error
    if not callable(found) or "." not in name:
        raise ConfigError(f"Expected _target_ to be module.name of a class or function, but got {name}.")
    return found


@cache
def parameters(target: Callable[..., Any]) -> tuple[tuple[str, Any], ...]:
    """Names and annotations of what the target accepts by keyword, those of ``**settings: Unpack[...]`` included."""
    return tuple(_parameters(target))


def _parameters(target: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    function = target.__init__ if inspect.isclass(target) else target
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(target).parameters.values():
        hint = hints.get(parameter.name, Any)
        if get_origin(hint) is Unpack:
            yield from get_type_hints(get_args(hint)[0], include_extras=True).items()
        else:
            yield parameter.name, hint


def _required(method: Callable[..., Any]) -> Iterator[str]:
    """The settings that a method cannot do without. Its first argument is the backbone."""
    hints = get_type_hints(method.__init__ if inspect.isclass(method) else method, include_extras=True)
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            for settings in get_args(hints.get(parameter.name)):  # of Unpack[...]
                yield from sorted(settings.__required_keys__)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            yield parameter.name


def _value(node: DictConfig, key: Any, path: str) -> Any:
    if key not in node:
        raise ConfigError(f"No {path} was given: add {path}=VALUE.")
    try:
        return node[key]
    except OmegaConfBaseException as error:
        raise ConfigError(f"{str(error).splitlines()[0]}, for {path}.") from None


def _fitting(value: Any, annotation: Any, path: str) -> Any:
    """A plain value as the type of its annotation; nested nodes are checked against their own target."""
    if isinstance(value, DictConfig):
        return value
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    adapter = _adapter(annotation)
    if adapter is None:  # the annotation says nothing about plain values
        return value
    try:
        return adapter.validate_json(json.dumps(value), strict=True)  # as JSON: strict, but a path may be a string
    except ValidationError as error:
        raise ConfigError(f"Expected {path} to be {_wanted(error, value)}, but got {value!r}.") from None


def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    """What reads plain values as this type; None for an annotation that pydantic has no schema for."""
    for make in (_kept_adapter, _new_adapter):  # the first needs annotations that have a hash
        with suppress(Exception):
            return make(annotation)
    return None


def _new_adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


_kept_adapter = cache(_new_adapter)


def _wanted(error: ValidationError, value: Any) -> str:
    """What pydantic says is allowed; of several names the closest first."""
    first = error.errors()[0]
    if first["type"] == "literal_error":
        names = re.findall(r"'(.*?)'", first["ctx"]["expected"])
        return f"one of {choices(value, names)}"
    return first["msg"].removeprefix("Input should be ").split(", ")[0]
