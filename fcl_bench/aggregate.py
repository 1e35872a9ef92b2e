"""Pure functions over the replies of clients."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import torch

from fcl_bench.door import Like, Range
from fcl_bench.message import StateDict
from fcl_bench.threads import threads_for


@dataclass(frozen=True)
class Update:
    """What a client of federated averaging sends back."""

    weights: Annotated[StateDict, Like("weights")]
    samples: Annotated[int, Range(0, "samples")]  # the weight of this client in the mean

    def counted_once(self) -> "Update":
        """With the same weight for every client; still none for a client without samples."""
        return replace(self, samples=min(self.samples, 1))


def weighted_mean(updates: Iterable[Update], default: StateDict) -> StateDict:
    """The mean of whole state dicts, buffers included, weighted by samples; ``default`` where no sample was seen.

    Sums are kept in float64, so the mean of equal models is that model to the last bit; integer buffers
    (BatchNorm's counter) are rounded to the nearest integer. Updates are consumed one by one: memory does not grow
    with the number of clients.

    >>> one, three = Update({"w": torch.tensor([0.0])}, 1), Update({"w": torch.tensor([4.0])}, 3)
    >>> weighted_mean([one, three], default={})
    {'w': tensor([3.])}
    """
    samples = 0
    totals: StateDict = {}
    for update in updates:
        samples += update.samples
        with threads_for(sum(value.numel() for value in update.weights.values())):
            for name, value in update.weights.items():
                term = value.to(torch.float64) * update.samples
                totals[name] = totals[name].add_(term) if name in totals else term
    if samples == 0:
        return default
    return {name: of_type(total / samples, default.get(name, update.weights[name])) for name, total in totals.items()}


def of_type(mean: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The mean as a tensor of the type of another one, rounded to the nearest integer if that has integers."""
    return mean.to(like.dtype) if like.is_floating_point() else mean.round().to(like.dtype)
