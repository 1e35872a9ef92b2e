"""Aggregation that a few lying clients cannot lead astray: pure functions beside the weighted mean.

Every update with samples counts as one, however many samples it names, as in the publications: a number that a client
names could be a lie too. Updates without samples take no part, and ``default`` is given back where none is left. A lie
may be anything of the right shape, infinity and NaN included. Results do not depend on the order of updates, to the
bit. Arithmetic is in float64, and integer buffers (BatchNorm's counter) are rounded to the nearest integer. Unlike the
mean, which takes updates one by one, all of these need every update in memory at once.
"""

import math
import warnings
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from fcl_bench.aggregate import Update, of_type, weighted_mean
from fcl_bench.errors import UserError
from fcl_bench.message import StateDict
from fcl_bench.threads import threads_for

Aggregation = Literal["mean", "median", "trimmed_mean", "krum", "multi_krum"]


def aggregated(updates: Iterable[Update], default: StateDict, aggregation: Aggregation, liars: int) -> StateDict:
    """The updates as one, by the rule of this name, if up to so many of them may be lies.

    Where fewer updates have samples than the rule needs, ``default``, with a warning: clients that stay away end no
    run.
    """
    if aggregation == "mean":
        return weighted_mean(updates, default)
    present = with_samples(updates)
    least = fewest(aggregation, liars)
    if 0 < len(present) < least:
        warnings.warn(
            f"A round has {len(present)} models of clients with samples, but {aggregation} with liars={liars} needs "
            f"{least}: the global model stays as it was.",
            stacklevel=2,
        )
        return default
    match aggregation:
        case "median":
            return median(present, default)
        case "trimmed_mean":
            return trimmed_mean(present, default, liars)
        case "krum":
            return krum(present, default, liars)
    return krum(present, default, liars, chosen=max(1, len(present) - liars))


def fewest(aggregation: Aggregation, liars: int) -> int:
    """How many updates the rule of this name cannot do without; 0 where it takes any number.

    >>> fewest("trimmed_mean", liars=1), fewest("krum", liars=1), fewest("median", liars=1)
    (3, 4, 0)
    """
    match aggregation:
        case "trimmed_mean":
            return 2 * liars + 1
        case "krum" | "multi_krum":
            return liars + 3
    return 0


def median(updates: Iterable[Update], default: StateDict) -> StateDict:
    """Of each number its median; of an even number of updates, the mean of the two in the middle.

    Yin et al., "Byzantine-Robust Distributed Learning", ICML 2018, Definition 1. While fewer than half of the updates
    are lies, each number lies between honest ones.

    >>> lie = Update({"w": torch.tensor([1e9])}, 1000)
    >>> median([Update({"w": torch.tensor([1.0])}, 1), lie, Update({"w": torch.tensor([2.0])}, 5)], default={})
    {'w': tensor([2.])}
    """
    present = with_samples(updates)
    return _middle(present, default, trim=(len(present) - 1) // 2)


def trimmed_mean(updates: Iterable[Update], default: StateDict, liars: int) -> StateDict:
    """Of each number the mean without the ``liars`` smallest and the ``liars`` largest values.

    Yin et al., Definition 2, where beta is the share of ``liars``. If no more of the updates are lies, each number lies
    between honest ones.
    """
    present = with_samples(updates)
    _refuse_few(present, "trimmed_mean", liars)
    return _middle(present, default, trim=liars)


def krum(updates: Iterable[Update], default: StateDict, liars: int, chosen: int = 1) -> StateDict:
    """The update nearest to its neighbours; with more ``chosen``, the mean of the nearest ones (Multi-Krum).

    Blanchard et al., "Machine Learning with Adversaries", NeurIPS 2017. The score of one of n updates is the sum of its
    squared distances to the n - liars - 2 others that are nearest to it; the smallest scores win. Distances are between
    all floating-point tensors together, buffers included. The publication proves its bound for n > 2 liars + 2. Equal
    scores, which are usual where one neighbour counts, are told apart by the sum of all numbers of an update.
    """
    present = with_samples(updates)
    if not present:
        return default
    _refuse_few(present, "krum", liars)
    with threads_for(sum(map(_numbers, present))):
        scores = _scores(_squared_distances(present), neighbours=len(present) - liars - 2)
        ranked = sorted(range(len(present)), key=lambda position: (scores[position], _total(present[position])))
    nearest = [present[position].counted_once() for position in ranked[:chosen]]
    return weighted_mean(nearest, default)


def with_samples(updates: Iterable[Update]) -> list[Update]:
    """Those that take part."""
    return [update for update in updates if update.samples > 0]


def _refuse_few(present: list[Update], aggregation: Aggregation, liars: int) -> None:
    least = fewest(aggregation, liars)
    if 0 < len(present) < least:
        raise UserError(
            f"Expected at least {least} updates with samples for {aggregation} with liars={liars}, but got "
            f"{len(present)}: assume fewer liars, or ask more clients."
        )


def _middle(present: list[Update], default: StateDict, trim: int) -> StateDict:
    """Of each number, the mean of the values in the middle, without ``trim`` at both ends."""
    if not present:
        return default
    middle = {}
    with threads_for(sum(map(_numbers, present))):
        for name, value in present[0].weights.items():
            values = _stacked(present, name).sort(dim=0).values  # NaN comes last
            mean = values[trim : len(values) - trim].mean(dim=0)
            middle[name] = of_type(mean, default.get(name, value))
    return middle


def _scores(distances: Tensor, neighbours: int) -> list[float]:
    """Of each row, the sum of its smallest distances, the one to itself left out: no other is smaller."""
    nearest = distances.sort(dim=1).values[:, 1 : 1 + neighbours]
    return nearest.sum(dim=1).tolist()


def _squared_distances(present: list[Update]) -> Tensor:
    """(n, n), infinite where they cannot be told."""
    distances = torch.zeros(len(present), len(present), dtype=torch.float64)
    for name, value in present[0].weights.items():
        if value.is_floating_point():
            rows = _stacked(present, name).flatten(1)
            roots = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
            distances += roots.square()
    return distances.nan_to_num(nan=math.inf, posinf=math.inf)


def _stacked(present: list[Update], name: str) -> Tensor:
    """One tensor of all updates, (n, *shape)."""
    return torch.stack([update.weights[name].to(torch.float64) for update in present])


def _total(update: Update) -> float:
    return sum(float(value.sum(dtype=torch.float64)) for value in update.weights.values())


def _numbers(update: Update) -> int:
    return sum(value.numel() for value in update.weights.values())
