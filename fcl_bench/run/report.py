"""What torchmetrics says about a classifier, once a run is complete.

To import it takes longer than to import torch, and 260 MB. At the end neither the seconds nor the memory of a record
know of that. Methods that train have it in memory already, with Lightning.
"""

import numpy as np
import torch
from torch import Tensor

CALIBRATION_BINS = 15  # of equal width
Curve = list[float | None]  # in percent, after each task; None is undefined


def report(predictions: Tensor, confidences: Tensor, targets: np.ndarray, since: np.ndarray) -> dict[str, Curve]:
    """Macro F1 and calibration error after each task, by name.

    Both are of the test samples of classes seen so far, as no classifier can know the others: ``since`` is the task in
    which a sample's class was registered. ``predictions`` and ``confidences`` have a row per task.
    """
    true = torch.tensor(targets)
    scores: list[float | None] = []
    errors: list[float | None] = []
    for task, labels in enumerate(predictions):
        seen = torch.from_numpy(since <= task)
        right = labels == true
        scores.append(_macro_f1(labels[seen], true[seen]))
        errors.append(_calibration_error(confidences[task][seen], right[seen]))
    return {"macro_f1": scores, "calibration_error": errors}


def by_class(predictions: Tensor, targets: np.ndarray, classes: int) -> dict[str, np.ndarray]:
    """``accuracy`` of each label in percent, NaN for one without samples, and ``confusion`` (target, prediction).

    A sample without a prediction (-1) is wrong, and in no column of ``confusion``.
    """
    from torchmetrics.functional.classification import multiclass_accuracy, multiclass_confusion_matrix

    labels = predictions.where(predictions >= 0, classes)
    true = torch.tensor(targets)
    with_none = classes + 1
    confusion = multiclass_confusion_matrix(labels, true, with_none)
    accuracy = 100 * multiclass_accuracy(labels, true, with_none, average="none")
    accuracy[confusion.sum(dim=1) == 0] = torch.nan
    return {"accuracy": accuracy[:classes].numpy(), "confusion": confusion[:classes, :classes].numpy()}


def _macro_f1(labels: Tensor, true: Tensor) -> float | None:
    from torchmetrics.functional.classification import multiclass_f1_score

    if len(true) == 0:
        return None
    classes = max(int(labels.max()), int(true.max()), 1) + 1  # torchmetrics takes no fewer than 2
    return 100 * float(multiclass_f1_score(labels, true, classes, average="macro"))


def _calibration_error(confidences: Tensor, right: Tensor) -> float | None:
    """Expected calibration error: whether the best class is right is a matter of two classes."""
    from torchmetrics.functional.classification import binary_calibration_error

    if len(right) == 0:
        return None
    return 100 * float(binary_calibration_error(confidences, right.long(), CALIBRATION_BINS, norm="l1"))
