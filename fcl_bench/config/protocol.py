"""Protocols: named settings that a run must have followed if its record names them."""

import re
from collections.abc import Collection
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.catalogue import config_file, names
from fcl_bench.config.nested import flattened, plain
from fcl_bench.config.run_id import IRRELEVANT_KEYS, method_name
from fcl_bench.errors import ConfigError, choices

NOT_OF_A_RUN = ("defaults", "published")  # what a protocol says about itself


def check_protocol(config: DictConfig, free: Collection[str] = ()) -> None:
    """Raise a :class:`ConfigError` for the first setting that is not what ``config.protocol`` fixes.

    Settings that are ``free``, or within a group that is, may be anything.
    """
    wanted = fixed(config.protocol) | _budget(config)
    if "settings" not in free:
        _check_settings(config)
    for key, value in wanted.items():
        if any(f"{key}.".startswith(f"{name}.") for name in free):
            continue
        given = plain(OmegaConf.select(config, key))
        if given != value:
            raise ConfigError(
                f"protocol={config.protocol} fixes {key}={value}, but got {given}: "
                "leave this setting alone, or leave the protocol out."
            )


def named(name: str) -> dict[str, Any]:
    """What stands in the YAML of a protocol, by groups and dotted names; nothing of one that is not here."""
    if name not in names("protocol"):
        return {}
    own = _own(name)
    return _chosen(own) | flattened({key: value for key, value in own.items() if key not in ("defaults", "protocol")})


def published_seeds(name: str | None) -> list[int]:
    """The seeds of which a protocol wants a result, where it says so."""
    seeds: list[int] = named(name).get("published.seeds", []) if name is not None else []
    return seeds


def _check_settings(config: DictConfig) -> None:
    """A protocol that chooses settings=tuned allows settings=faithful as well; other protocols know neither."""
    given = plain(config.get("settings"))
    if "settings" in _chosen(_own(config.protocol)):
        allowed = given is not None
        wanted = "tuned or faithful"
    else:
        allowed = given is None
        wanted = "null"
    if not allowed:
        name = None if given is None else given.get("name")
        raise ConfigError(
            f"protocol={config.protocol} fixes settings={wanted}, but got {name}: "
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
    own = _own(name)
    chosen: dict[str, Any] = {}
    for group, entry in _chosen(own).items():
        if group != "settings":
            chosen |= flattened({group: _settings(config_file(f"{group}/{entry}") or "")})
    plain = {key: value for key, value in chosen.items() if _counts(key, value)}
    return plain | flattened({key: value for key, value in own.items() if key not in NOT_OF_A_RUN})


def _own(name: str) -> dict[str, Any]:
    """The YAML of a protocol."""
    text = config_file(f"protocol/{name}")
    if text is None:
        raise ConfigError(f"There is no protocol '{name}'; choose from: {choices(name, names('protocol'))}.")
    own: dict[str, Any] = _settings(text)
    return own


def _chosen(own: dict[str, Any]) -> dict[str, str]:
    """Choices that a protocol makes, by their groups."""
    entries = (item for entry in own.get("defaults", []) for item in entry.items())
    return {override.removeprefix("override /"): choice for override, choice in entries}


def _counts(key: str, value: Any) -> bool:
    """Whether a setting of a choice is the same in all runs: no reference, and nothing about one machine."""
    return "${" not in str(value) and key.rpartition(".")[2] not in IRRELEVANT_KEYS


def _settings(text: str) -> Any:
    return plain(OmegaConf.create(text))
