"""Where the values of a method are searched, and which values a trial has: a pure function of names and numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, isfinite, log
from typing import Any

import numpy as np
from scipy.stats.qmc import Sobol

from fcl_bench.errors import ConfigError
from fcl_bench.seeds import generator

SCALES = ("linear", "log")
DIGITS = 3  # of a value between two bounds: more would make no difference that a trial could show


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, even on their scale."""

    low: float
    high: float
    scale: str

    def at(self, place: float) -> float:
        """The value at a place between 0 and 1, with few digits.

        >>> Range(0.001, 0.1, "log").at(0.5)
        0.01
        """
        return min(max(float(f"{self._exact(place):.{DIGITS}g}"), self.low), self.high)

    def _exact(self, place: float) -> float:
        if self.scale == "log":
            return exp(log(self.low) + place * (log(self.high) - log(self.low)))
        return self.low + place * (self.high - self.low)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that are as wrong for a method as any others could be."""
        return (self.low, self.high)

    @property
    def written(self) -> dict[str, Any]:
        """As in a YAML."""
        return {"low": self.low, "high": self.high, "scale": self.scale}


@dataclass(frozen=True)
class Choices:
    """Some values, all as likely."""

    values: tuple[Any, ...]

    def at(self, place: float) -> Any:
        """The value at a place between 0 and 1.

        >>> Choices((1, 3, 10)).at(0.5)
        3
        """
        return self.values[min(int(place * len(self.values)), len(self.values) - 1)]

    @property
    def ends(self) -> tuple[Any, ...]:
        """All of them."""
        return self.values

    @property
    def written(self) -> dict[str, Any]:
        """As in a YAML."""
        return {"choices": list(self.values)}


Space = dict[str, Range | Choices]  # by the name below ``method``, such as optimizer.weight_decay


def values_of(space: Space, seed: int, method: str, trial: int) -> dict[str, Any]:
    """What trial 1, 2, ... of a method tries: a point of a scrambled Sobol sequence, mapped to the space.

    Neither the order of names nor the number of trials matters, and no trial depends on how another one went.
    """
    names = sorted(space)
    scrambled = Sobol(len(names), scramble=True, seed=generator(seed, "tune", method))
    point: np.ndarray = scrambled.random_base2((trial - 1).bit_length())[trial - 1]
    return {name: space[name].at(float(place)) for name, place in zip(names, point, strict=True)}


def read_space(search: Any) -> Space:
    """The space that a node ``search`` describes; None in the place of a description leaves a setting alone."""
    if not isinstance(search, Mapping):
        raise ConfigError(f"Expected method.search to name settings and their ranges, but got {search!r}.")
    return {str(name): _read(f"method.search.{name}", entry) for name, entry in search.items() if entry is not None}


def _read(place: str, entry: Any) -> Range | Choices:
    if isinstance(entry, Mapping) and set(entry) == {"choices"}:
        return _choices(place, entry["choices"])
    if isinstance(entry, Mapping) and entry and set(entry) <= {"low", "high", "scale"}:
        return _range(place, entry)
    raise ConfigError(f"Expected {place} to have choices, or low, high and scale, but got {entry!r}.")


def _choices(place: str, values: Any) -> Choices:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"Expected {place}.choices to be a list of one value or more, but got {values!r}.")
    return Choices(tuple(values))


def _range(place: str, entry: Mapping[str, Any]) -> Range:
    for name in ("low", "high"):
        value = entry.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ConfigError(f"Expected {place}.{name} to be a number, but got {value!r}.")
    low = float(entry["low"])
    high = float(entry["high"])
    scale = entry.get("scale")
    if scale not in SCALES:
        raise ConfigError(f"Expected {place}.scale to be one of {', '.join(SCALES)}, but got {scale!r}.")
    if low >= high:
        raise ConfigError(f"Expected {place}.low to be below {place}.high={high:g}, but got {low:g}.")
    if scale == "log" and low <= 0:
        raise ConfigError(f"Expected {place}.low to be above 0, as its scale is log, but got {low:g}.")
    return Range(low, high, scale)
