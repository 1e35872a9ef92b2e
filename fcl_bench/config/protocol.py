"""Protocols: named settings that a run must have followed if its record names them."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.catalogue import catalogue, config_file
from fcl_bench.errors import ConfigError, choices


def check_protocol(config: DictConfig) -> None:
    """Raise a :class:`ConfigError` for the first setting that is not what ``config.protocol`` fixes."""
    rounds = "rounds" in config.method  # else it is not a method that the budget is for
    budget = {f"method.{key}": value for key, value in config.budget.items()} if rounds else {}
    for place, value in (fixed(config.protocol) | budget).items():
        found: Any = OmegaConf.select(config, place)
        found = OmegaConf.to_container(found) if OmegaConf.is_config(found) else found
        if found != value:
            raise ConfigError(
                f"protocol={config.protocol} fixes {place}={value}, but got {found}: "
                "leave this setting alone, or leave the protocol out."
            )


def fixed(name: str) -> dict[str, Any]:
    """What a protocol sets, by dotted names: its own settings, and all of the choices that it makes for groups."""
    text = config_file(f"protocol/{name}")
    if text is None:
        raise ConfigError(f"There is no protocol '{name}'; choose from: {choices(name, catalogue()['protocol'])}.")
    own = _settings(text)
    found: dict[str, Any] = {}
    for choice in own.pop("defaults", []):
        for override, entry in choice.items():
            group = override.removeprefix("override /")
            found |= flattened({group: _settings(config_file(f"{group}/{entry}") or "")})
    plain = {place: value for place, value in found.items() if "${" not in str(value)}
    return plain | flattened(own)


def flattened(settings: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names.

    >>> flattened({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flattened(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return found


def _settings(text: str) -> Any:
    return OmegaConf.to_container(OmegaConf.create(text))
