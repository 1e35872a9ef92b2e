"""A method that is to be tuned: its settings, where its values are searched, and the trials that follow from both."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.compose import SEARCH, check, keys, settings_of
from fcl_bench.config.explain import explained
from fcl_bench.config.load import load
from fcl_bench.config.run_id import IRRELEVANT_GROUPS, result_relevant, settings_hash
from fcl_bench.errors import ConfigError, choices
from fcl_bench.tuning.search_words import changed, split_words
from fcl_bench.tuning.space import Space, read_space, values_of

FIRST_SEED = 1_000_000  # seeds from here on are for tuning: no result is reported on their streams
SEEDS = 1_000_000
USUAL = {"threads": "1", "federation.on_bad_reply": "stop"}  # a trial whose clients diverge has failed
BUDGET = ("rounds", "epochs")  # what a protocol fixes for them is the same for every trial
NOT_FOR_TUNING = {
    "seed": "Tuning has seeds of its own, which no result is reported on: give --seed K instead of seed=",
    "limit_test": "Tuning never reads the test set: leave out limit_test=",
    "output_dir": "Tuning writes no run folders: give --out FOLDER instead of output_dir=",
}
WITHOUT_TUNED = "~settings"  # keeps the values of an earlier tuning out


@dataclass(frozen=True)
class Trial:
    """What a method is tried with; trial 0 are its own defaults."""

    method: str
    number: int
    values: dict[str, Any]
    config: DictConfig

    @property
    def id(self) -> str:
        """Equal for trials that must have the same outcome, on the same data."""
        settings: Any = OmegaConf.to_container(self.config, resolve=True)
        return settings_hash(settings)


@dataclass(frozen=True)
class Subject:
    """A method, as one of many that are tuned alike."""

    method: str
    config: DictConfig  # of its trial 0
    space: Space
    seed: int

    def trials(self, number: int) -> list[Trial]:
        """As many; none if there is nothing to tune."""
        return [self._trial(each) for each in range(number)] if self.space else []

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of trial 0."""
        return {name: _value(self.config, name) for name in sorted(self.space)}

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the method that can change a result, in trial 0."""
        return result_relevant({"method": plain(self.config)["method"]})["method"]

    @property
    def common(self) -> dict[str, Any]:
        """The settings that can change a result and are the same for all methods."""
        others = IRRELEVANT_GROUPS | {"method"}
        return result_relevant({key: value for key, value in plain(self.config).items() if key not in others})

    def _trial(self, number: int) -> Trial:
        values = values_of(self.space, self.seed, self.method, number) if number else self.defaults
        return Trial(self.method, number, values, with_values(self.config, values))


def subject(method: str, words: Sequence[str], seed: int) -> Subject:
    """The method with the overrides of a command; a :class:`ConfigError` says what is wrong with them."""
    refuse_what_is_not_for_tuning(words)
    if not 0 <= seed < SEEDS:
        raise ConfigError(f"Expected --seed to be a number from 0 to {SEEDS - 1}, but got {seed}.")
    about_search, others = split_words(words)
    usual = [f"{key}={value}" for key, value in USUAL.items() if key not in keys(others)]
    overrides = [f"method={method}", *others, *usual, f"seed={FIRST_SEED + seed}", WITHOUT_TUNED]
    with explained():
        composed = load(overrides)
        declared: Any = OmegaConf.to_container(OmegaConf.create(composed.method.get(SEARCH) or {}))
        space = read_space(changed(declared, about_search))
        config = settings_of(composed, overrides)
    _refuse_unknown(config, space)
    found = Subject(method, config, space, seed)
    _check_ends(found)
    return found


def refuse_what_is_not_for_tuning(words: Sequence[str]) -> None:
    """Raise a :class:`ConfigError` for settings that tuning has no use for."""
    for key in sorted(keys(words) & set(NOT_FOR_TUNING)):
        raise ConfigError(f"{NOT_FOR_TUNING[key]}.")


def with_values(config: DictConfig, values: Mapping[str, Any]) -> DictConfig:
    """The same settings with other values of the method."""
    copy = deepcopy(config)
    for name, value in values.items():
        OmegaConf.update(copy, f"method.{name}", value)
    return copy


def plain(config: DictConfig) -> dict[str, Any]:
    """Settings without references."""
    settings: Any = OmegaConf.to_container(config, resolve=True)
    return settings


def _refuse_unknown(config: DictConfig, space: Space) -> None:
    for name in space:
        parent, _, key = f"method.{name}".rpartition(".")
        node = OmegaConf.select(config, parent)
        if not isinstance(node, DictConfig) or key not in node:
            keys_there = map(str, node) if isinstance(node, DictConfig) else ()
            known = [each for each in keys_there if not each.startswith("_")]
            raise ConfigError(
                f"There is no setting 'method.{name}' to search; {parent} has: {choices(key, known) or 'none'}."
            )


def _check_ends(found: Subject) -> None:
    """Check the defaults, and every end of a range and every choice, one at a time; a protocol fixes all else."""
    free = ["settings", *(f"method.{name}" for name in found.space if name not in BUDGET)]
    check(found.config, free)
    for name, dimension in found.space.items():
        for value in dimension.ends:
            check(with_values(found.config, {name: value}), free)


def _value(config: DictConfig, name: str) -> Any:
    value = OmegaConf.select(config, f"method.{name}")
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
