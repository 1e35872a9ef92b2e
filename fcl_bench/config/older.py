"""The settings of a record that an earlier version has written, as this version takes them.

They mean what they meant then: settings that are new have the value that stands for what was done before, and classes
that have moved are found again. What can no longer be said remains, and the check of the configuration names it.
"""

import copy
from collections.abc import Iterator
from functools import cache
from pydoc import ErrorDuringImport, locate

from omegaconf import DictConfig, OmegaConf, open_dict

from fcl_bench.config.catalogue import GROUPS, config_file, names
from fcl_bench.config.compose import check, parameters
from fcl_bench.config.run_id import NEUTRAL, target_of

TARGET = "_target_"


def present(config: DictConfig, method: str) -> DictConfig:
    """A copy that says the same today; ``method`` is the name under which the record has its method."""
    settings = copy.deepcopy(config)
    with open_dict(settings):
        for group in GROUPS:
            if isinstance(settings.get(group), DictConfig):
                name = settings[group].get("name") or (method if group == "method" else "")
                _find_again(settings[group], group, name)
        for place, value in NEUTRAL.items():
            _add(settings, place, value)
    return settings


def check_recorded(config: DictConfig) -> None:
    """Check the settings of a record, which count whatever a protocol of that name, or a tuning, fixes today."""
    free = config.copy()
    free.protocol = None
    free.settings = None
    check(free)


def _find_again(node: DictConfig, group: str, name: str | None) -> None:
    """Replace the paths of classes that have moved, here and further inside, where a node has no choices: None."""
    if TARGET in node and not _exists(node[TARGET]):
        node[TARGET] = _moved(str(node[TARGET]), group, name) or node[TARGET]
    for key in map(str, node):
        child = node.get(key)
        if isinstance(child, DictConfig):
            _find_again(child, group, None)


def _moved(path: str, group: str, name: str | None) -> str | None:
    """Where a class is now: that of the choice of this name, one called as it was, or the only one of its group."""
    named = target_of(config_file(f"{group}/{name}") or "") if name else None
    if named:
        return named
    own_name = path.rpartition(".")[2]
    called_so = {target for target in _targets(GROUPS) if target.rpartition(".")[2] == own_name}
    of_group = _targets((group,)) if name is not None else set()
    return next((found.pop() for found in (called_so, of_group) if len(found) == 1), None)


def _targets(groups: tuple[str, ...]) -> set[str]:
    """The classes that the choices of some groups name."""
    return set(_all_targets(groups))


@cache
def _all_targets(groups: tuple[str, ...]) -> tuple[str, ...]:
    texts = (config_file(f"{group}/{name}") or "" for group in groups for name in names(group))
    return tuple(filter(None, map(target_of, texts)))


def _exists(path: str) -> bool:
    try:
        return locate(path) is not None
    except ErrorDuringImport:
        return True  # it is there, but broken: the check says how


def _add(settings: DictConfig, place: str, value: object) -> None:
    """Give a setting its neutral value where its class has it today and the record does not say it."""
    group, _, name = place.rpartition(".")
    if not group:
        if place not in settings:
            settings[place] = _choice(place, value) if isinstance(value, dict) else value
        return
    node = OmegaConf.select(settings, group)
    if isinstance(node, DictConfig) and name not in node and name in _accepted(node):
        node[name] = value


def _choice(group: str, settings: dict[str, object]) -> DictConfig:
    """The choice of a group that is named in its neutral settings."""
    choice = OmegaConf.create(config_file(f"{group}/{settings['name']}") or "{}")
    assert isinstance(choice, DictConfig)
    return choice


def _accepted(node: DictConfig) -> Iterator[str]:
    try:
        target = locate(str(node.get(TARGET)))
    except ErrorDuringImport:
        return
    if callable(target):
        yield from dict(parameters(target))
