"""Samples that a method is given: those of a client in one task, or those that are public."""

from collections.abc import Iterator
from typing import Protocol

from torch import Tensor


class Rows(Protocol):
    """All training inputs: a tensor, or a handle to a file of them."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: Tensor) -> Tensor: ...


class ClientData:
    """Some samples and their registered class numbers. Inputs stay where they are until they are asked for."""

    def __init__(self, inputs: Rows, indices: Tensor, labels: Tensor):
        self._inputs = inputs
        self._indices = indices
        self.labels = labels  # (n,)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self._inputs[self._indices[positions]], self.labels[positions]

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """All inputs and labels, in memory."""
        return self._inputs[self._indices], self.labels

    def batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels in the order in which the samples lie on disk, each sample once."""
        for positions in self._indices.argsort().split(batch_size):
            if len(positions):
                yield self[positions]
