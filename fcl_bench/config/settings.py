"""Where the hyper-parameters of a run come from: its method's own YAML (``faithful``), or ``tune`` (``tuned``).

A record that says so must be right, so hyper-parameters that were searched for are fixed to the values of either.
"""

from typing import Any

from omegaconf import DictConfig, OmegaConf
from pydantic import ValidationError

from fcl_bench.config.catalogue import config_file
from fcl_bench.config.load import load
from fcl_bench.config.nested import flattened, plain
from fcl_bench.config.run_id import method_name
from fcl_bench.config.settings_node import SettingsNode
from fcl_bench.errors import ConfigError


def check_settings(config: DictConfig) -> None:
    """Raise a :class:`ConfigError` unless ``config.settings`` is right about the hyper-parameters of the method."""
    node = config.get("settings")
    if node is None:
        return
    name = _checked(node).name
    wanted = _tuned(config) if name == "tuned" else {"settings.name": name, **_faithful(config)}
    own = dict.fromkeys(flattened({"settings": plain(node)}))  # no more of them than wanted
    for key, value in {**own, **wanted}.items():
        given = plain(OmegaConf.select(config, key))
        if given != value:
            raise ConfigError(
                f"settings={name} fixes {key}={value}, but got {given}: "
                "leave this setting alone, or leave settings and protocol out."
            )


def tuned_file(protocol: str | None, method: str) -> dict[str, Any] | None:
    """What ``tune`` has written for a method under a protocol; None if it has not."""
    text = config_file(f"tuned/{protocol}/{method}")
    return None if text is None else plain(OmegaConf.create(text))


def _checked(node: Any) -> SettingsNode:
    try:
        return SettingsNode.model_validate(plain(node))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(["settings", *map(str, first["loc"])])
        raise ConfigError(
            f"The setting {where} is not as settings=tuned or settings=faithful sets it "
            f"({first['msg']}): choose one of them, and leave the rest alone."
        ) from error


def _tuned(config: DictConfig) -> dict[str, Any]:
    """Everything in the file of the method, by dotted names."""
    if config.protocol is None:
        raise ConfigError(
            "settings=tuned needs the protocol under which the method was tuned: "
            "add protocol=NAME, or take settings=faithful."
        )
    method = method_name(config)
    found = tuned_file(config.protocol, method)
    if found is None:
        raise ConfigError(
            f"Nothing was tuned for method={method} under protocol={config.protocol}: "
            f"run python -m fcl_bench tune method={method} protocol={config.protocol}, or take settings=faithful."
        )
    return flattened(found)


def _faithful(config: DictConfig) -> dict[str, Any]:
    """What the YAML of the method says about the settings that ``tune`` searches."""
    method = method_name(config)
    if config_file(f"method/{method}") is None:
        raise ConfigError(
            f"settings=faithful are those of a method's YAML file, but there is none for method.name={method}: "
            "leave method.name alone, or leave settings and protocol out."
        )
    declared = _declared(method)
    others = OmegaConf.masked_copy(config, [key for key in map(str, config) if key != "method"])
    resolved = OmegaConf.merge(others, {"method": declared})
    names = [f"method.{name}" for name in declared.get("search", {})]
    return {name: plain(OmegaConf.select(resolved, name)) for name in names}


def _declared(method: str) -> DictConfig:
    """The settings of a method as its YAML has them, and what ``tune`` searches."""
    node: DictConfig = load([f"method={method}"]).method
    return node
