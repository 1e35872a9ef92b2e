"""Protocols: named settings that a run must have followed if its record names them."""

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.catalogue import config_file, names
from fcl_bench.config.run_id import method_name
from fcl_bench.errors import ConfigError, choices


def check_protocol(config: DictConfig) -> None:
    """Raise a :class:`ConfigError` for the first setting that is not what ``config.protocol`` fixes."""
    wanted = fixed(config.protocol) | _budget(config)
    for key, value in wanted.items():
        given: Any = OmegaConf.select(config, key)
        if OmegaConf.is_config(given):
            given = OmegaConf.to_container(given)
        if given != value:
            raise ConfigError(
                f"protocol={config.protocol} fixes {key}={value}, but got {given}: "
                "leave this setting alone, or leave the protocol out."
            )


def _budget(config: DictConfig) -> dict[str, Any]:
    """What the YAML of a method takes from the budget of the protocol, or has as a number of its own."""
    own = _with_shared(f"method/{method_name(config)}")
    wanted: dict[str, Any] = {}
    if "rounds" in config.method:  # else it is not a method that goes on for as long as the budget says
        wanted = {key: own.get(key, f"${{budget.{key}}}") for key in ("rounds", "epochs")}
    taken = {key: value for key, value in own.items() if _is_taken(value, config.budget)}
    resolved = OmegaConf.create({"budget": config.budget, "method": wanted | taken})
    return flattened({"method": OmegaConf.to_container(resolved.method, resolve=True)})


def _is_taken(value: Any, budget: DictConfig) -> bool:
    """Whether a value is that of the budget, which need not have all that it is asked for."""
    asked = re.search(r"\bbudget\.([\w.]+)", str(value))
    return asked is not None and OmegaConf.select(budget, asked[1]) is not None


def _with_shared(name: str) -> dict[str, Any]:
    """The settings in a YAML file, and those that it takes over from others."""
    own = _settings(config_file(name) or "{}")
    shared: dict[str, Any] = {}
    for other in own.pop("defaults", []):
        shared |= _with_shared(other.removeprefix("/").removesuffix("@_here_"))
    return shared | own


def fixed(name: str) -> dict[str, Any]:
    """What a protocol sets, by dotted names: its own settings, and all of the choices that it makes for groups."""
    text = config_file(f"protocol/{name}")
    if text is None:
        raise ConfigError(f"There is no protocol '{name}'; choose from: {choices(name, names('protocol'))}.")
    own = _settings(text)
    chosen: dict[str, Any] = {}
    for choice in own.pop("defaults", []):
        for override, entry in choice.items():
            group = override.removeprefix("override /")
            chosen |= flattened({group: _settings(config_file(f"{group}/{entry}") or "")})
    plain = {key: value for key, value in chosen.items() if "${" not in str(value)}
    return plain | flattened(own)


def flattened(settings: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names.

    >>> flattened({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{path}{key}.")
        else:
            flat[f"{path}{key}"] = value
    return flat


def _settings(text: str) -> Any:
    return OmegaConf.to_container(OmegaConf.create(text))
