"""Sums that may be private: of samples that are projected to fewer dimensions and bounded, and with noise.

Noise of independent numbers is as large in a matrix of 1,280 x 1,280 as in one of 128 x 128, number by number, but its
eigenvalues grow with the matrix. Fewer dimensions have less noise, and less of the features.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fcl_bench import linalg
from fcl_bench.client_data import ClientData
from fcl_bench.moments import Moments


@dataclass(frozen=True)
class Prepared:
    """Samples whose features are multiplied by a ``projection``, then scaled down to a norm of at most ``clip``."""

    samples: ClientData
    projection: Tensor | None  # (features, dimensions)
    clip: float | None

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """All features and labels."""
        inputs, labels = self.samples.tensors
        return self._prepared(inputs), labels

    def batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Features and labels."""
        for inputs, labels in self.samples.batches(batch_size):
            yield self._prepared(inputs), labels

    def _prepared(self, inputs: Tensor) -> Tensor:
        rows = inputs
        if self.projection is not None:
            rows = rows.double() @ self.projection
        if self.clip is not None:
            norms = torch.linalg.vector_norm(rows.double(), dim=1, keepdim=True)
            rows = rows.double() * (self.clip / norms).clamp(max=1)
        return rows


def random_projection(features: int, dimensions: int) -> Tensor:
    """(features, dimensions), float64. Norms stay as they are on average. It is public: drawn from the run's seed."""
    return torch.randn(features, dimensions, dtype=torch.float64) / math.sqrt(dimensions)


def sensitivity(clip: float) -> float:
    """How far (F^T F, Y^T F) moves at most, as one vector, when a sample of norm ``clip`` comes or goes.

    Its outer product x x^T has the norm clip^2, and its row of Y^T F the norm clip.

    >>> sensitivity(1.0) ** 2
    2.0000000000000004
    """
    return math.hypot(clip**2, clip)


def with_noise(moments: Moments, deviation: float) -> Moments:
    """The same plus noise: N(0, deviation^2) on every number of F^T F, which is then made symmetric, and of Y^T F."""
    features = moments.cross.shape[1]
    noise = deviation * torch.randn(features, features, dtype=torch.float64)
    return replace(
        moments,
        gram=moments.gram + linalg.triangle_of((noise + noise.T) / 2),
        cross=moments.cross + deviation * torch.randn_like(moments.cross),
        noise=deviation**2,
    )


def restored(gram: Tensor, noise: float) -> Tensor:
    """A positive definite matrix near F^T F plus noise of this variance per number.

    Eigenvalues that noise has made negative become 0. Then all grow by sqrt(2 noise n), about the largest eigenvalue of
    noise alone: directions in which there is little but noise get small weights.
    """
    edge = math.sqrt(2 * noise * len(gram))
    lifted = linalg.without_negative(gram)
    lifted.diagonal().add_(edge)
    return lifted
