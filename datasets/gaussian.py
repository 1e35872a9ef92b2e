"""Synthetic features: one Gaussian cloud per class, of any size, made while they are read."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor

from fcl_bench.dataset import Dataset
from fcl_bench.datasets.ordering import digest
from fcl_bench.errors import ConfigError

BLOCK = 16  # samples with one seed: small, as reading one of them makes all; larger is faster when all are read


@dataclass(eq=False)
class Clouds:
    """Samples that are never stored: noise from the seed of their block plus the mean of their class."""

    seed: tuple[int, int]  # of the data, and which half
    means: np.ndarray  # (classes, features) float32
    labels: np.ndarray

    def read(self, indices: np.ndarray) -> Tensor:
        """The same values for an index, whatever it is read with; float32 (n, features)."""
        features = self.means[self.labels[indices]]
        blocks, positions = np.divmod(indices, BLOCK)
        order = np.argsort(blocks, kind="stable")
        numbers, starts = np.unique(blocks[order], return_index=True)
        for block, rows in zip(numbers, np.split(order, starts[1:]), strict=False):
            rng = np.random.default_rng((*self.seed, block))
            noise = rng.standard_normal((BLOCK, features.shape[1]), dtype=np.float32)
            features[rows] += noise[positions[rows]]
        return torch.from_numpy(features)


def gaussian(
    name: str,
    data_dir: Path,
    classes: PositiveInt,
    train_size: PositiveInt,
    test_size: PositiveInt,
    features: PositiveInt,
    separation: NonNegativeFloat,
    data_seed: NonNegativeInt,
) -> Dataset:
    """Class means about ``separation`` standard deviations apart; ``data_dir`` is not needed."""
    if min(train_size, test_size) < classes:
        raise ConfigError(
            f"Expected dataset.train_size and dataset.test_size to be at least dataset.classes={classes}, "
            f"but got {train_size} and {test_size}."
        )
    rng = np.random.default_rng(data_seed)
    spread = separation / np.sqrt(2 * features)
    means = (spread * rng.standard_normal((classes, features))).astype(np.float32)
    train, test = (
        Clouds((data_seed, half), means, rng.permutation(np.arange(size, dtype=np.int64) % classes))
        for half, size in enumerate((train_size, test_size), start=1)  # (seed, 0, 0) would be the stream of the means
    )
    fingerprint = digest(["gaussian", classes, train_size, test_size, features, separation, data_seed])
    return Dataset(name, tuple(map(str, range(classes))), train, test, fingerprint, files=())
