"""Search spaces on the command line: ``method.search.NAME.choices=[1,10]`` and the like.

Hydra cannot read these words, as the name of a setting within another one has a dot.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from fcl_bench.config.compose import SEARCH, keys
from fcl_bench.errors import ConfigError

PLACE = f"method.{SEARCH}"
FIELDS = ("low", "high", "scale", "choices")


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words about search spaces, and all others."""
    search = [word for word in words if _is_about_search(word)]
    return search, [word for word in words if word not in search]


def changed(search: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """What a method declares, as the words change it, one after the other.

    >>> changed({"lr": {"low": 0.1, "high": 1, "scale": "log"}}, ["method.search.lr.high=2", "~method.search.mu"])
    {'lr': {'low': 0.1, 'high': 2, 'scale': 'log'}, 'mu': None}
    """
    now = dict(search)
    for override in OverridesParser.create().parse_overrides(list(words)):
        now = _changed_once(now, override)
    return now


def _is_about_search(word: str) -> bool:
    return any(f"{key}.".startswith(f"{PLACE}.") for key in keys([word]))


def _changed_once(search: dict[str, Any], override: Override) -> dict[str, Any]:
    if override.is_sweep_override():
        raise ConfigError(f"Expected one value in {override.input_line}: put several of them in [brackets].")
    value = None if override.is_delete() else override.value()
    name = override.key_or_group.removeprefix(PLACE).lstrip(".")
    if not name:
        return dict(value) if isinstance(value, Mapping) else {}
    setting, _, field = name.rpartition(".")
    if not setting or field not in FIELDS or value is None or isinstance(value, Mapping):
        return {**search, name: value}
    if field == "choices":
        return {**search, setting: {field: value}}
    before = search.get(setting) or {}
    bounds = {key: bound for key, bound in before.items() if key != "choices"}
    return {**search, setting: {**bounds, field: value}}
