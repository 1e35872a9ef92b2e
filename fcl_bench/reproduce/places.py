"""Where a run takes place: what today's command line decides, and a record of elsewhere does not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf, open_dict

from fcl_bench.config.compose import settings_of
from fcl_bench.config.explain import explained
from fcl_bench.config.load import load
from fcl_bench.errors import ConfigError

FOLDER = "reproduced"  # output_dir, unless it is given
OURS = ("data_dir", "cache_dir", "output_dir", "resume", "transport", "logger")  # settings and groups of a run
INSIDE = {"dataset.download": "download", "local.accelerator": "accelerator"}  # keys that a record has at any depth
BUDGET = "budget"  # the record's settings are taken from one, and it counts no more


@dataclass(frozen=True)
class Places:
    """Settings that cannot change a result."""

    settings: dict[str, Any]  # of OURS and BUDGET, with references to settings of the run
    inside: dict[str, Any]  # by key

    def put_into(self, config: DictConfig) -> None:
        """Let them replace what a configuration says about the same."""
        with open_dict(config):
            config[BUDGET] = config.get(BUDGET, self.settings[BUDGET])
            for name in OURS:
                config[name] = OmegaConf.create({name: self.settings[name]})[name]
            for node in _nodes(config):
                for key in self.inside.keys() & set(map(str, node)):
                    node[key] = self.inside[key]


def places(overrides: Sequence[str]) -> Places:
    """Those of a command line; a :class:`ConfigError` for a setting that decides more than where a run takes place."""
    ours = [f"output_dir={FOLDER}"] * ("output_dir" not in map(_key, overrides))
    inside = {}
    for override in overrides:
        key = _key(override)
        if key in INSIDE:
            inside[INSIDE[key]] = yaml.safe_load(override.partition("=")[2])
        elif key.partition(".")[0] in OURS:
            ours.append(override)
        else:
            raise ConfigError(
                f"Expected settings of the place only ({', '.join([*OURS, *INSIDE])}), but got '{override}': all "
                "others are those of the record."
            )
    with explained():
        composed = settings_of(load(["~method", *ours]), ours)
        settings: Any = OmegaConf.to_container(composed)
    kept = {name: settings[name] for name in (*OURS, BUDGET)}
    return Places(kept, {"data_dir": kept["data_dir"], **inside})


def _key(override: str) -> str:
    return override.partition("=")[0]


def _nodes(config: DictConfig) -> Iterator[DictConfig]:
    """A configuration and all groups in it."""
    yield config
    for key in map(str, config):
        child = config.get(key)
        if isinstance(child, DictConfig):
            yield from _nodes(child)
