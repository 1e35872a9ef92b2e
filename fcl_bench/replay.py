"""Samples that are kept: what replay methods store at clients, and which of a stream of samples to keep."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """Inputs as clients hold them, and their registered class numbers; can be trained on like a client's data."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.inputs[positions], self.labels[positions]

    def __add__(self, other: "Samples") -> "Samples":
        """First these, then the others."""
        return Samples(torch.cat([self.inputs, other.inputs]), torch.cat([self.labels, other.labels]))

    def drawn(self, number: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """So many of them at random, each draw independent of the others, on a device."""
        inputs, labels = self[torch.randint(len(self), (number,))]
        return inputs.to(device), labels.to(device)


def reservoir(size: int, seen: int, arriving: int) -> Tensor:
    """Keep a uniform sample of ``size`` of all samples ever seen (Vitter's algorithm R), over one more batch of them.

    For every slot that is filled now: the position of the arriving sample that it holds, or -1 if it is as before.

    >>> reservoir(size=4, seen=1, arriving=2)
    tensor([-1,  0,  1])
    """
    counts = torch.arange(seen, seen + arriving)  # samples before each
    drawn = (torch.rand(arriving, dtype=torch.float64) * (counts + 1)).long()
    chosen = torch.where(counts < size, counts, drawn)
    entering = (chosen < size).nonzero().flatten()
    slots = torch.full((min(size, seen + arriving),), -1)
    return slots.scatter_reduce_(0, chosen[entering], entering, "amax")  # of several in one slot, the last stays


def kept(old: Tensor | None, arriving: Tensor, slots: Tensor) -> Tensor:
    """The rows in the slots of a :func:`reservoir`, from the rows that were there before and those that arrive.

    >>> kept(torch.tensor([7, 8]), torch.tensor([1, 2, 3]), torch.tensor([-1, 2]))
    tensor([7, 3])
    """
    rows = arriving[slots.clamp(min=0)]
    if old is not None:
        stays = (slots < 0).nonzero().flatten()
        rows[stays] = old[stays]
    return rows
