"""Features on a fixed scale: all times one number, so that a learning rate means the same on every data set."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fcl_bench.data.cache import Label, Span, complete_entry
from fcl_bench.data.inputs import Inputs
from fcl_bench.errors import UserError

ROWS = 4096  # at a time


def factor_for(train: Inputs, mean_norm: float | None) -> float:
    """By what all features are multiplied, so that the mean norm of the training features is ``mean_norm``.

    It has three digits: features whose last bits differ, on another processor, get the same factor. 1 for None.
    """
    if mean_norm is None:
        return 1.0
    norms = [rows.norm(dim=1).double().sum() for rows in train.split(ROWS)]
    present = float(torch.stack(norms).sum()) / len(train)
    if present == 0:
        raise UserError("backbone.mean_norm cannot scale features that are all zero: set backbone.mean_norm=null.")
    return float(f"{mean_norm / present:.3g}")


def scaled(inputs: Inputs, factor: float, dataset: str, half: str, backbone: str, cache_dir: Path) -> Inputs:
    """The same features times ``factor``, in an entry of the cache beside theirs; for a factor of 1 they themselves."""
    if factor == 1:
        return inputs
    source = inputs.path.parent.name
    folder = cache_dir.absolute() / f"{source}-times-{factor:g}"
    label = Label(dataset, half, backbone, {"features": source, "times": factor})
    entry = complete_entry(folder, label, len(inputs), "float32", _Product(inputs, factor), lambda done, total: None)
    return Inputs(entry.data, torch.float32, entry.shape)


@dataclass
class _Product:
    """Computes rows of scaled features."""

    inputs: Inputs
    factor: float

    def __call__(self, spans: Iterable[Span]) -> Generator[np.ndarray]:
        """The rows of each span."""
        for start, stop in spans:
            yield (self.inputs.tensor[start:stop] * self.factor).numpy()
