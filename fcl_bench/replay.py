"""Samples that are kept: what replay methods store at clients, and which of a stream of samples to keep."""

from dataclasses import dataclass, field
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import pad

from fcl_bench.door import Kind, Labels, Shape


@dataclass(frozen=True)
class Samples:
    """Inputs as clients hold them, and their registered class numbers; can be trained on like a client's data."""

    inputs: Annotated[Tensor, Shape("n", "sample"), Kind("sample")]
    labels: Annotated[Tensor, Shape("n"), Kind(torch.int64), Labels()]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.inputs[positions], self.labels[positions]

    def __add__(self, other: "Samples") -> "Samples":
        """First these, then the others."""
        return Samples(torch.cat([self.inputs, other.inputs]), torch.cat([self.labels, other.labels]))


@dataclass(frozen=True)
class Reservoir:
    """A uniform sample of all rows that were ever added (Vitter's algorithm R). A value: ``add`` gives a new one.

    A row has a place in every column, such as ``inputs`` and ``labels``.

    >>> reservoir = Reservoir().add(4, labels=torch.tensor([7])).add(4, labels=torch.tensor([8, 9]))
    >>> reservoir["labels"]
    tensor([7, 8, 9])
    """

    seen: int = 0  # rows added so far, kept or not
    columns: dict[str, Tensor] = field(default_factory=dict)  # by name: (rows kept, ...)

    def __len__(self) -> int:
        return min(map(len, self.columns.values()), default=0)

    def __getitem__(self, column: str) -> Tensor:
        return self.columns[column]

    def add(self, size: int, /, **columns: Tensor) -> "Reservoir":
        """What is kept once these rows are there too, at most ``size`` rows.

        Where rows have become longer since (logits of more classes), old ones are filled up with zeros.
        """
        arriving = min(map(len, columns.values()))
        if arriving == 0:
            return self
        slots = assign_slots(size, self.seen, arriving)
        kept = {name: _fill_slots(slots, rows, self.columns.get(name)) for name, rows in columns.items()}
        return Reservoir(self.seen + arriving, kept)

    def drawn(self, number: int) -> Tensor:
        """Where so many rows are, each drawn independently of the others: (number,)."""
        return torch.randint(len(self), (number,))

    def draw(self, number: int, device: torch.device) -> dict[str, Tensor]:
        """So many rows at random, each drawn independently of the others: their columns, on a device."""
        positions = self.drawn(number)
        return {name: column[positions].to(device) for name, column in self.columns.items()}


def assign_slots(size: int, seen: int, arriving: int) -> Tensor:
    """For every slot of a reservoir: the position of the arriving row that it holds from now on, or -1 for its old row.

    >>> assign_slots(size=4, seen=1, arriving=2)
    tensor([-1,  0,  1])
    """
    before = torch.arange(seen, seen + arriving)  # (arriving,) rows that came before each
    drawn = (torch.rand(arriving, dtype=torch.float64) * (before + 1)).long()  # uniform over 0 .. before
    slot = torch.where(before < size, before, drawn)  # first the free slots in turn, then a random one
    entering = (slot < size).nonzero().flatten()  # positions; a row whose slot does not exist is dropped
    slots = torch.full((min(size, seen + arriving),), -1)
    return slots.scatter_reduce_(0, slot[entering], entering, "amax")  # of several in one slot, the last stays


def _fill_slots(slots: Tensor, arriving: Tensor, old: Tensor | None) -> Tensor:
    rows = arriving[slots.clamp(min=0)]  # (slots, ...)
    if old is None:
        return rows
    if old.dim() == 2:
        old = pad(old, (0, rows.shape[1] - old.shape[1]))
    stays = (slots < 0).nonzero().flatten()
    rows[stays] = old[stays]
    return rows
