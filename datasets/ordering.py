"""The fixed order, split and fingerprint of samples: pure functions of their names and labels, never of a seed."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np


def name_order(names: Sequence[str]) -> np.ndarray:
    """The positions of ``names`` in the order of their hashes: mixed, yet the same wherever the names come from.

    >>> names = ["cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"]
    >>> [names[i] for i in name_order(names)] == [names[::-1][i] for i in name_order(names[::-1])]
    True
    """
    hashes = [blake2b(_encode(name), digest_size=8).digest() for name in names]
    order = sorted(range(len(names)), key=hashes.__getitem__)
    return np.array(order, dtype=np.int64)


def hold_out(labels: np.ndarray, ratio: float) -> np.ndarray:
    """A mask of the test samples: ``ratio * n`` (rounded down) in all, and that share of each class up to one sample.

    >>> hold_out(np.array([0, 1, 0, 1, 0, 1]), 1 / 3).nonzero()[0].tolist()
    [4, 5]
    """
    by_class = np.argsort(labels, kind="stable")  # (n,) one class after the other
    counts = np.arange(len(labels) + 1)
    held = np.floor(counts * ratio + 1e-9)  # (n + 1,) how many of the first 0 .. n samples are for testing
    mask = np.zeros(len(labels), dtype=bool)
    mask[by_class] = np.diff(held) > 0
    return mask


def digest(parts: Iterable[object]) -> str:
    """A short hash of the texts of ``parts``."""
    text = "\0".join(map(str, parts))
    return blake2b(_encode(text), digest_size=16).hexdigest()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # a file name may hold any bytes
