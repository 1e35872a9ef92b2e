"""What makes two runs the same: the settings that can change a result.

Where a node has a ``name``, the name stands for the class. The path in ``_target_`` does not count: classes may move.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.catalogue import catalogue, config_file
from fcl_bench.errors import ConfigError

IRRELEVANT_GROUPS = {"output_dir", "cache_dir", "resume", "logger", "transport", "budget"}
IRRELEVANT_KEYS = {"data_dir", "download", "accelerator"}  # at any depth
IRRELEVANT_PLACES = {
    *("dataset.lr", "privacy.arithmetic"),  # hints: they count where they are taken, as method.lr
    "federation.on_bad_reply",  # whether a run goes on, not what its result is
}
ONE_CLASS_ONLY = {"federation"}  # nodes that need no name
NEUTRAL = {  # a setting that some records do not know yet: the value that means what was done before
    "backbone.clients_hold": None,
    "backbone.feature_range": None,
    "backbone.mean_norm": None,
    "federation.away": 0,
    "federation.delay": 2,
    "federation.forget": 0,
    "federation.join_later": 0,
    "federation.late": 0,
    "federation.lost": 0,
    "federation.max_norm": None,
    "federation.timeout": None,
    "federation.twice": 0,
    "limit_classes": None,
    "method.aggregation": "mean",  # of methods that average
    "method.arithmetic": "float64",  # of afcl, fedncm and joint
    "method.balance": 0,  # of afcl
    "method.bits": None,  # of afcl, fedncm and joint
    "method.distil": "known",  # of fedlwf
    "method.liars": 1,  # of methods that average
    "method.logit_adjustment": 0,  # of methods that train a softmax
    "method.look_ahead": False,  # of fedcbc
    "method.look_ahead_epochs": 100,  # of fedcbc
    "method.project": None,  # of afcl
    "method.min_count": 1,  # of afcl and fedncm
    "method.share": "equal",  # of fedicarl
    "privacy": {"name": "none"},
    "settings": None,
    "stream.reserved": 0,
    "threads": None,
}


def run_id(config: DictConfig) -> str:
    """``seed<k>-<hash>``: equal for two configurations that must give the same result."""
    settings: Any = OmegaConf.to_container(config, resolve=True)
    return f"seed{config.seed}-{settings_hash(settings)}"


def settings_hash(settings: Mapping[str, Any]) -> str:
    """The hash in a run id, of the plain settings of a run."""
    content = {key: value for key, value in settings.items() if key not in IRRELEVANT_GROUPS}
    text = json.dumps(result_relevant(content), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def result_relevant(value: Any, path: str = "") -> Any:
    """The settings below ``path`` that can change a result; 1.0 is 1.

    >>> result_relevant({"name": "iid", "_target_": "some.Iid", "tasks": 5.0, "reserved": 0}, "stream")
    {'name': 'iid', 'tasks': 5}
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    unnamed = "name" not in value and path not in ONE_CLASS_ONLY
    relevant = {}
    for key, child in value.items():
        place = f"{path}.{key}" if path else key
        irrelevant = key in IRRELEVANT_KEYS or place in IRRELEVANT_PLACES
        if irrelevant or (key == "_target_" and not unnamed):
            continue
        content = result_relevant(child, place)
        if place not in NEUTRAL or content != NEUTRAL[place]:
            relevant[key] = content
    return relevant


def method_name(config: DictConfig) -> str:
    """The name of a method in folders, records and tables: that in its YAML.

    A YAML without a name gives the name of its file; a class that no YAML names has the name of its module.
    """
    target = config.method["_target_"]
    return config.method.get("name") or _file_that_names(target) or target.split(".")[-2]


def check_method_name(config: DictConfig) -> None:
    """Raise a :class:`ConfigError` for the name of another class, whose results would be taken for this one's."""
    name, target = config.method.get("name"), config.method["_target_"]
    owner = target_of(config_file(f"method/{name}") or "")
    if owner not in (None, target):
        raise ConfigError(
            f"The name '{name}' belongs to {owner}, but this method is {target}: give it a name of its own, "
            "method.name=NAME."
        )


@cache
def _file_that_names(target: str) -> str | None:
    for name in catalogue()["method"]:
        if target_of(config_file(f"method/{name}") or "") == target:
            return name
    return None


def target_of(text: str) -> str | None:
    r"""The class that a YAML file names.

    >>> target_of("# Mine\n_target_: my_lab.Mine  # the class\nfit: 1")
    'my_lab.Mine'
    """
    found = re.search(r"^_target_:\s*[\"']?([\w.]+)", text, re.MULTILINE)
    return found[1] if found else None
