"""What torchmetrics says about a classifier. It is slow to import, so that waits until the first task is scored."""

import numpy as np
import torch
from torch import Tensor

from fcl_bench.run.evaluate import Answers

CALIBRATION_BINS = 15  # of equal width
Report = dict[str, float | None]  # in percent; None is undefined


def report(answers: Answers, targets: np.ndarray, seen: np.ndarray) -> Report:
    """Accuracies, macro F1 and calibration error after a task; ``seen``: which samples are of a registered class.

    F1 and calibration are those of the seen samples, as no classifier can know the others.
    """
    chosen = torch.from_numpy(seen)
    true = torch.tensor(targets)
    labels = torch.from_numpy(answers.labels)
    confidences = torch.from_numpy(answers.confidences)
    return {
        "seen_accuracy": _accuracy(labels[chosen], true[chosen]),
        "whole_accuracy": _accuracy(labels, true),
        "macro_f1": _macro_f1(labels[chosen], true[chosen]),
        "calibration_error": _calibration_error(confidences[chosen], (labels == true)[chosen]),
    }


def by_class(predictions: np.ndarray, targets: np.ndarray, classes: int) -> dict[str, np.ndarray]:
    """``accuracy`` of each label in percent, NaN for one without samples, and ``confusion`` (target, prediction).

    A sample without a prediction (-1) is wrong, and in no column of ``confusion``.
    """
    from torchmetrics.functional.classification import multiclass_accuracy, multiclass_confusion_matrix

    labels = torch.from_numpy(np.where(predictions < 0, classes, predictions))
    true = torch.tensor(targets)
    several = max(classes + 1, 2)  # torchmetrics takes no fewer
    confusion = multiclass_confusion_matrix(labels, true, several)
    accuracy = 100 * multiclass_accuracy(labels, true, several, average="none")
    accuracy[confusion.sum(dim=1) == 0] = torch.nan
    return {"accuracy": accuracy[:classes].numpy(), "confusion": confusion[:classes, :classes].numpy()}


def _accuracy(labels: Tensor, true: Tensor) -> float | None:
    """From numbers of samples, which are exact: the quotient that torchmetrics offers has seven digits."""
    from torchmetrics.functional.classification import multiclass_stat_scores

    counts = multiclass_stat_scores(labels, true, _several(labels, true), average="micro", validate_args=False)
    right, _, _, _, samples = counts.tolist()
    return 100 * right / samples if samples else None


def _macro_f1(labels: Tensor, true: Tensor) -> float | None:
    from torchmetrics.functional.classification import multiclass_f1_score

    if len(true) == 0:
        return None
    return 100 * float(multiclass_f1_score(labels, true, _several(labels, true), average="macro"))


def _calibration_error(confidences: Tensor, right: Tensor) -> float | None:
    """Expected calibration error: whether the best class is right is a matter of two classes."""
    from torchmetrics.functional.classification import binary_calibration_error

    if len(right) == 0:
        return None
    return 100 * float(binary_calibration_error(confidences, right.long(), CALIBRATION_BINS, norm="l1"))


def _several(labels: Tensor, true: Tensor) -> int:
    """A number of classes that holds all labels; torchmetrics takes none below 2."""
    largest = max((int(values.max()) for values in (labels, true) if len(values)), default=0)
    return max(largest + 1, 2)
