"""What all clients together hold, as a handle on a file: cheap to make, cheap to send to another process."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Inputs:
    """Rows in a file, one after another, without a header; ``shape`` is that of all rows together.

    The file is mapped into memory when the first row is asked for. A pickle holds the three fields and no rows, so
    another process opens the file for itself, and the two share its pages.
    """

    path: Path
    dtype: torch.dtype
    shape: tuple[int, ...]

    @cached_property
    def tensor(self) -> Tensor:
        """All rows, memory-mapped. To write into them changes a private copy, never the file."""
        flat = torch.from_file(str(self.path), shared=False, size=prod(self.shape), dtype=self.dtype)
        return flat.view(self.shape)

    @property
    def ndim(self) -> int:
        """2 for features, 4 for images."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, positions: Tensor) -> Tensor:
        """The rows at ``positions``, (n,) int64, in memory."""
        return self.tensor[positions]

    def split(self, rows: int) -> tuple[Tensor, ...]:
        """Batches of ``rows`` rows in the order of the file, still memory-mapped; the last one may be shorter."""
        return self.tensor.split(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return Inputs, (self.path, self.dtype, self.shape)


@dataclass(frozen=True)
class SomeInputs:
    """Some rows of a file in a given order, which are read where they are asked for and copied nowhere before."""

    whole: Inputs
    rows: Tensor  # (n,) int64

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all these rows together."""
        return (len(self.rows), *self.whole.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """Of the numbers."""
        return self.whole.dtype

    @property
    def ndim(self) -> int:
        """2 for features, 4 for images."""
        return self.whole.ndim

    @property
    def tensor(self) -> Tensor:
        """All rows, in memory."""
        return self.whole[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, positions: Tensor) -> Tensor:
        """The rows at ``positions``, (n,) int64, in memory."""
        return self.whole[self.rows[positions]]

    def split(self, rows: int) -> Iterator[Tensor]:
        """Batches of ``rows`` rows in their order, one after the other in memory; the last one may be shorter."""
        for batch in self.rows.split(rows):
            yield self.whole[batch]
