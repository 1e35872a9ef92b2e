"""Which training samples the server can read off an upload: those whose class has its sum from them alone.

Where a client holds one sample of a class, the sum of that class is the sample. So sums of many samples hide none of
them, and sums of one hide nothing.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import normalize

from fcl_bench.client_data import ClientData

ROWS = 2048  # samples at a time
FIRST = 16  # features that are looked at first: they tell almost all other sums from a sample


@dataclass(frozen=True)
class ClassSums:
    """What a reply says of each class, as anybody can compute it who has the reply and knows the method."""

    sums: Tensor  # (classes, features) by registered class number, in the unit of features
    resolution: float  # the largest error of a number that the method's own rounding makes
    normalised: bool = False  # whether they are sums of features of length 1
    samples: int = 0  # that the reply holds as they are, besides the sums
    projection: Tensor | None = None  # (features, dimensions), public: what features are multiplied by before all else


def samples_revealed(found: ClassSums, samples: ClientData) -> int:
    """How many of the samples behind an upload it reveals: each is compared with the sum of its own class.

    >>> import torch
    >>> features = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> samples = ClientData(features, torch.arange(3), torch.tensor([0, 1, 1]))
    >>> samples_revealed(ClassSums(torch.tensor([[1.0, 2.0], [8.0, 10.0]]), resolution=0.0), samples)
    1
    """
    revealed = found.samples
    if len(found.sums) == 0:
        return revealed
    for inputs, labels in samples.batches(ROWS):
        told = labels < len(found.sums)
        revealed += _equal_rows(found, inputs[told], labels[told])
    return revealed


def _equal_rows(found: ClassSums, inputs: Tensor, labels: Tensor) -> int:
    """How many of the inputs are equal to the sum of their class."""
    rows = inputs if found.projection is None else inputs.double() @ found.projection
    rows = normalize(rows.double()) if found.normalised else rows
    near = _near(found, rows, labels, FIRST).nonzero().flatten()
    return int(_near(found, rows[near], labels[near], rows.shape[1]).sum())


def _near(found: ClassSums, rows: Tensor, labels: Tensor, features: int) -> Tensor:
    """Whether the first features of each row are those of the sum of its class."""
    gaps = rows[:, :features].double() - found.sums[:, :features].double()[labels]
    return (gaps.abs() <= found.resolution).all(dim=1)
