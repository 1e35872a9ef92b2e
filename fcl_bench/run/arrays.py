"""The arrays of a record: predictions after every task, and what the last ones say class by class."""

import io
from typing import Any

import numpy as np

from fcl_bench.run.checkpoint import Checkpoint
from fcl_bench.run.report import by_class

Arrays = dict[str, Any]  # of numpy


def prediction_arrays(checkpoint: Checkpoint, targets: np.ndarray) -> Arrays:
    """``predictions.npz``; the names of other classifiers come after those of the arrays."""
    arrays = {
        "predictions": checkpoint.predictions.numpy(),
        "confidences": checkpoint.confidences.numpy(),
        "targets": targets,
    }
    for name in checkpoint.others:
        arrays[f"predictions_{name}"] = checkpoint.others[name].numpy()
        arrays[f"confidences_{name}"] = checkpoint.other_confidences[name].numpy()
    return arrays


def class_arrays(checkpoint: Checkpoint, targets: np.ndarray, classes: int) -> Arrays:
    """``classes.npz``: of every classifier after the last task, named as above."""
    arrays = by_class(checkpoint.predictions[-1], targets, classes)
    for name, rows in checkpoint.others.items():
        for kind, values in by_class(rows[-1], targets, classes).items():
            arrays[f"{kind}_{name}"] = values
    return arrays


def packed(arrays: Arrays) -> bytes:
    """An npz file."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()
