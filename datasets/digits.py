"""Handwritten digits: 1,797 images of 8 x 8 pixels that come with scikit-learn."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from fcl_bench.data.images import Pixels
from fcl_bench.dataset import Dataset
from fcl_bench.datasets.ordering import digest, hold_out

TEST_RATIO = 0.2
BRIGHTEST = 16


def digits(name: str, data_dir: Path) -> Dataset:
    """Three equal channels, scaled to 0..255; ``data_dir`` is not needed."""
    images, labels = load_digits(return_X_y=True)
    grey = np.rint(images * (255 / BRIGHTEST)).astype(np.uint8).reshape(-1, 1, 8, 8)
    pixels = np.repeat(grey, 3, axis=1)
    labels = labels.astype(np.int64)
    test = hold_out(labels, TEST_RATIO)
    return Dataset(
        name,
        tuple("0123456789"),
        Pixels(pixels[~test], labels[~test]),
        Pixels(pixels[test], labels[test]),
        digest([TEST_RATIO, grey.tobytes().hex(), *labels]),
        files=(),
    )
