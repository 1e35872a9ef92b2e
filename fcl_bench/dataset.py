"""What a data set is to the harness: two labelled halves that can read any of their samples.

A data set lives in one file of ``datasets/``: a function with typed arguments that returns a :class:`Dataset`, named by
``_target_`` in one YAML of ``configs/dataset/``.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from fcl_bench.seeds import generator


class Half(Protocol):
    """One half (train or test) of a data set."""

    labels: np.ndarray  # (n,) int64, each in 0 .. number of classes - 1

    def read(self, indices: np.ndarray) -> Tensor | list[Tensor]:
        """The samples at ``indices``, in that order; may be called from several threads at once.

        Images are uint8 RGB, channels first: one tensor (n, 3, h, w) where all have one size, else a list of (3, h, w).
        Ready-made features are one float32 tensor (n, d).
        """
        ...


@dataclass(frozen=True)
class Dataset:
    """Two halves, the class names in label order, and a fingerprint that is equal only for equal contents.

    ``files`` are all files and folders that the contents came from, and those that would have been preferred to them:
    as long as they are untouched, a finished run is shown again without loading them. None stands for not known.
    """

    name: str
    classes: tuple[str, ...]
    train: Half
    test: Half
    fingerprint: str
    files: tuple[Path, ...] | None = None


class Part:
    """Some samples of a half, in a given order."""

    def __init__(self, whole: Half, indices: np.ndarray):
        self.whole = whole
        self.indices = indices
        self.labels = whole.labels[indices]

    def read(self, indices: np.ndarray) -> Tensor | list[Tensor]:
        """See :class:`Half`."""
        return self.whole.read(self.indices[indices])


def with_first_classes(dataset: Dataset, number: int | None) -> Dataset:
    """Only the samples of the first classes, in the order of labels; None for all, as they are."""
    if number is None or number >= len(dataset.classes):
        return dataset
    parts: dict[str, Any] = {}
    for name in ("train", "test"):
        half: Half = getattr(dataset, name)
        parts[name] = Part(half, np.flatnonzero(half.labels < number))
    classes = dataset.classes[:number]
    return replace(dataset, **parts, classes=classes, fingerprint=f"{dataset.fingerprint}, first {number} classes")


def limited(dataset: Dataset, train: int | None, test: int | None, seed: int) -> Dataset:
    """The first ``train`` and ``test`` samples after a seeded shuffle, for quick looks; None for all, as they are."""
    parts: dict[str, Any] = {}
    for name, limit in (("train", train), ("test", test)):
        if limit is None:
            continue
        half: Half = getattr(dataset, name)
        size = len(half.labels)
        if limit < size:
            order = generator(seed, "limit", name).permutation(size)
            parts[name] = Part(half, order[:limit])
    if not parts:
        return dataset
    return replace(dataset, **parts, fingerprint=f"{dataset.fingerprint}, limits {train}, {test}, seed {seed}")
