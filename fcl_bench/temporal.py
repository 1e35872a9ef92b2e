"""Temporal splits: which samples arrive in which task, as a pure function of the labels and the seed.

A split is a frozen dataclass named by ``_target_`` in one YAML of ``configs/stream/``; :class:`Temporal` lists what it
must have.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from fcl_bench.errors import ConfigError
from fcl_bench.seeds import generator

Ratio = Annotated[float, Field(ge=0, le=1)]
Groups = tuple[np.ndarray, ...]  # one array per task
Layout = tuple[Groups, Groups]  # the disjoint and the blurry classes at home in each task


@dataclass(frozen=True)
class TemporalSplit:
    """Sample indices of each task in order of arrival, and the classes at home in each task (``IidTasks`` has none)."""

    train: Groups
    test: Groups
    disjoint: Groups = ()  # classes whose samples all arrive in this task
    blurry: Groups = ()  # classes of which a share is moved to other tasks


class Temporal(Protocol):
    """A way to split data over time."""

    @property
    def name(self) -> str:
        """As in ``stream=NAME``."""
        ...

    @property
    def tasks(self) -> int:
        """How many."""
        ...

    @property
    def manifest(self) -> Path | None:
        """A saved stream to replay instead of splitting."""
        ...

    @property
    def reserved(self) -> int:
        """Training samples per class that no client gets: they are public, for methods that use such samples."""
        ...

    def split(self, train_labels: np.ndarray, test_labels: np.ndarray, seed: int) -> TemporalSplit:
        """Deal both halves of the data to tasks."""
        ...


@dataclass(frozen=True)
class SiBlurry:
    """Si-Blurry (Moon et al., ICCV 2023): some classes arrive in one task only, the others leak into all tasks.

    ``fixed`` gives every task equally many classes, ``varying`` cuts classes and moved samples at random; both shuffle
    first and lose nothing. ``legacy`` and ``legacy_fixed`` repeat the published sampler index for index, in the branch
    that its scripts run and in the other one: like ``varying`` and ``fixed``, but unshuffled (whole classes of
    class-sorted data move) and without the classes left over by multiples of ``tasks``; ``legacy_fixed`` also drops the
    moved samples that are left over. The test set follows the same classes; the same share of it is moved, dealt out
    evenly in every layout.
    """

    tasks: PositiveInt
    disjoint_ratio: Ratio = 0.5
    blurry_ratio: Ratio = 0.1
    layout: Literal["fixed", "varying", "legacy", "legacy_fixed"] = "fixed"
    manifest: Path | None = None
    reserved: NonNegativeInt = 0
    name: str = "si_blurry"

    def split(self, train_labels: np.ndarray, test_labels: np.ndarray, seed: int) -> TemporalSplit:
        """Draw the class layout, then deal both halves of the data by it."""
        legacy = self.layout in ("legacy", "legacy_fixed")
        classes = _number_of_classes(train_labels, test_labels, self.tasks)
        disjoint, blurry = _divide(classes, self.disjoint_ratio, multiple=self.tasks if legacy else 1)
        draw: Draws = _TorchDraws(seed) if legacy else generator(seed, "stream", "train")
        order = draw.permutation(classes)[: disjoint + blurry]
        layout = self._layout(order, disjoint, draw)
        samples = np.arange(len(train_labels)) if legacy else draw.permutation(len(train_labels))
        train = _deal(train_labels, samples, layout, self.blurry_ratio, draw, MOVES[self.layout])
        draw = generator(seed, "stream", "test")
        samples = draw.permutation(len(test_labels))
        test = _deal(test_labels, samples, layout, self.blurry_ratio, draw, _move_evenly)
        return TemporalSplit(train, test, *layout)

    def _layout(self, order: np.ndarray, disjoint: int, draw: "Draws") -> Layout:
        match self.layout:
            case "fixed":
                return _even_layout(order, disjoint, self.tasks)
            case "legacy_fixed":
                return _consecutive_layout(order, disjoint, self.tasks)
        return _random_layout(order, disjoint, self.tasks, draw)


@dataclass(frozen=True)
class Disjoint:
    """Plain class-incremental learning: classes in random order, equally many per task, each in one task only."""

    tasks: PositiveInt
    manifest: Path | None = None
    reserved: NonNegativeInt = 0
    name: str = "disjoint"

    def split(self, train_labels: np.ndarray, test_labels: np.ndarray, seed: int) -> TemporalSplit:
        """Si-Blurry without blurry classes."""
        return SiBlurry(self.tasks, disjoint_ratio=1).split(train_labels, test_labels, seed)


@dataclass(frozen=True)
class IidTasks:
    """No temporal shift: every task is an equal random part of the data."""

    tasks: PositiveInt
    manifest: Path | None = None
    reserved: NonNegativeInt = 0
    name: str = "iid"

    def split(self, train_labels: np.ndarray, test_labels: np.ndarray, seed: int) -> TemporalSplit:
        """Shuffle each half and cut it into equal parts."""
        if self.tasks > len(train_labels):
            raise _too_many_tasks(len(train_labels), "training samples", self.tasks)
        train = generator(seed, "stream", "train").permutation(len(train_labels))
        test = generator(seed, "stream", "test").permutation(len(test_labels))
        return TemporalSplit(
            _cut(train, _even_cuts(len(train), self.tasks)), _cut(test, _even_cuts(len(test), self.tasks))
        )


class _TorchDraws:
    """The two draws the sampler makes, under numpy's names but with the generator of the published code."""

    def __init__(self, seed: int) -> None:
        import torch

        self._torch = torch
        self._generator = torch.Generator().manual_seed(seed)

    def permutation(self, count: int) -> np.ndarray:
        return self._torch.randperm(count, generator=self._generator).numpy()

    def integers(self, high: int, size: int) -> np.ndarray:
        return self._torch.randint(0, high, (size,), generator=self._generator).numpy()


Draws = np.random.Generator | _TorchDraws
Move = Callable[[Sequence[int], float, Draws], tuple[np.ndarray, np.ndarray]]


def _move_evenly(blurry: Sequence[int], ratio: float, draw: Draws) -> tuple[np.ndarray, np.ndarray]:
    """How many of its ``blurry`` samples each task gives to the pool, and where to cut the pool: (tasks + 1,)."""
    given = np.array([_share(own, ratio) for own in blurry])
    return given, _even_cuts(given.sum(), len(blurry))


def _move_multiples(blurry: Sequence[int], ratio: float, draw: Draws) -> tuple[np.ndarray, np.ndarray]:
    """The same, but what is left over by a multiple of the tasks is lost."""
    given = np.array([_share(own, ratio) for own in blurry])
    return given, np.arange(len(blurry) + 1) * (given.sum() // len(blurry))


def _move_at_random(blurry: Sequence[int], ratio: float, draw: Draws) -> tuple[np.ndarray, np.ndarray]:
    """The same share of all, but each task gives and receives a random part of it."""
    cuts = _random_cuts(_share(sum(blurry), ratio), len(blurry), draw)
    return np.diff(cuts), cuts


MOVES: dict[str, Move] = {
    "fixed": _move_evenly,
    "varying": _move_at_random,
    "legacy": _move_at_random,
    "legacy_fixed": _move_multiples,
}


def _deal(labels: np.ndarray, samples: np.ndarray, layout: Layout, ratio: float, draw: Draws, move: Move) -> Groups:
    """Send ``samples`` home; then each task gives its first blurry ones to a pool, which is shuffled and dealt out."""
    disjoint_classes, blurry_classes = layout
    tasks = len(disjoint_classes)
    arriving = labels[samples]
    disjoint = [samples[np.isin(arriving, classes)] for classes in disjoint_classes]  # samples at home in each task
    blurry = [samples[np.isin(arriving, classes)] for classes in blurry_classes]
    given, cuts = move([len(own) for own in blurry], ratio, draw)
    pool = np.concatenate([own[:number] for own, number in zip(blurry, given, strict=True)])
    received = _cut(pool[draw.permutation(len(pool))], cuts)
    dealt = []
    for task in range(tasks):
        stays = blurry[task][given[task] :]
        dealt.append(np.concatenate([disjoint[task], stays, received[task]]))
    return tuple(own[draw.permutation(len(own))] for own in dealt)


def _divide(classes: int, disjoint_ratio: float, multiple: int) -> tuple[int, int]:
    """How many classes are disjoint and how many blurry, each rounded down to a ``multiple``."""
    disjoint = _share(classes, disjoint_ratio) // multiple * multiple
    return disjoint, (classes - disjoint) // multiple * multiple


def _even_layout(order: np.ndarray, disjoint: int, tasks: int) -> Layout:
    """Deal the classes in turn, the disjoint ones first, so that neither kind nor the sum differs by more than one."""
    home = np.arange(len(order)) % tasks
    is_disjoint = np.arange(len(order)) < disjoint
    return (
        tuple(order[is_disjoint & (home == task)] for task in range(tasks)),
        tuple(order[~is_disjoint & (home == task)] for task in range(tasks)),
    )


def _consecutive_layout(order: np.ndarray, disjoint: int, tasks: int) -> Layout:
    """Cut each kind into equal parts; both are multiples of ``tasks``."""
    return (
        _cut(order[:disjoint], _even_cuts(disjoint, tasks)),
        _cut(order[disjoint:], _even_cuts(len(order) - disjoint, tasks)),
    )


def _random_layout(order: np.ndarray, disjoint: int, tasks: int, draw: Draws) -> Layout:
    """Cut each kind at random: a task may get many classes or none."""
    return (
        _cut(order[:disjoint], _random_cuts(disjoint, tasks, draw)),
        _cut(order[disjoint:], _random_cuts(len(order) - disjoint, tasks, draw)),
    )


def _share(count: int, ratio: float) -> int:
    """``count * ratio`` rounded down; rounded to six digits before, so that 29 % of 100 is 29 in floating point too."""
    return math.floor(round(count * ratio, 6))


def _even_cuts(count: int, parts: int) -> np.ndarray:
    return np.arange(parts + 1) * count // parts


def _random_cuts(count: int, parts: int, draw: Draws) -> np.ndarray:
    inner = np.sort(draw.integers(count, size=parts - 1)) if count else np.zeros(parts - 1, dtype=np.int64)
    return np.concatenate([[0], inner, [count]])


def _cut(items: np.ndarray, cuts: Sequence[int] | np.ndarray) -> Groups:
    return tuple(items[start:stop] for start, stop in pairwise(cuts))


def _number_of_classes(train_labels: np.ndarray, test_labels: np.ndarray, tasks: int) -> int:
    """The highest label of either half decides: a class may have no sample left in a limited training set."""
    classes = int(max(train_labels.max(initial=-1), test_labels.max(initial=-1))) + 1
    if tasks > classes:
        raise _too_many_tasks(classes, "classes", tasks)
    return classes


def _too_many_tasks(limit: int, what: str, tasks: int) -> ConfigError:
    return ConfigError(
        f"Expected stream.tasks to be at most {limit}, the number of {what} of the data, but got {tasks}."
    )
