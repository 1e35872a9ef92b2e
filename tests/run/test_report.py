"""What torchmetrics says about a classifier, against counts, scikit-learn and a calibration error by hand."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, f1_score
from torchmetrics.functional.classification import multiclass_calibration_error

from fcl_bench.run.metrics import accuracy
from fcl_bench.run.report import by_class, report

CLASSES = 7


def some_answers(seed: int) -> tuple[torch.Tensor, np.ndarray]:
    """Probabilities of the classes but the last two, and targets: after one task two classes are not yet seen."""
    random = np.random.default_rng(seed)
    targets = random.integers(0, CLASSES, 500)
    scores = random.normal(size=(500, CLASSES)) + 2 * np.eye(CLASSES)[targets]
    return torch.tensor(scores)[:, : CLASSES - 2].softmax(dim=1), targets


@pytest.mark.parametrize("seed", range(5))
def test_a_report_agrees_with_other_libraries(seed: int) -> None:
    probabilities, targets = some_answers(seed)
    confidences, labels = probabilities.max(dim=1)
    seen = targets < CLASSES - 2
    found = report(labels[None], confidences[None].float(), targets, since=np.where(seen, 0, 1))
    f1 = f1_score(targets[seen], labels.numpy()[seen], average="macro", zero_division=0)
    assert found["macro_f1"] == [pytest.approx(100 * f1, rel=1e-5)]
    error = multiclass_calibration_error(
        probabilities[torch.from_numpy(seen)].float(), torch.from_numpy(targets[seen]), CLASSES - 2, n_bins=15
    )
    assert found["calibration_error"] == [pytest.approx(100 * float(error), rel=1e-5)]


def test_the_calibration_error_by_hand() -> None:
    """Confidence 0.9 with 3 of 4 right, and 0.6 with 1 of 4 right: the mean of |0.75 - 0.9| and |0.25 - 0.6|.

    After the second task all is right and certain; the class of the last samples is registered only then.
    """
    labels = torch.tensor([[0, 0, 0, 1, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 2, 2]])
    confidences = torch.tensor([[0.9] * 4 + [0.6] * 4 + [1.0] * 2, [1.0] * 10])
    targets = np.array([0] * 8 + [2] * 2)
    found = report(labels, confidences, targets, since=np.array([0] * 8 + [1] * 2))
    assert found["calibration_error"] == [pytest.approx(100 * (0.15 + 0.35) / 2, rel=1e-5), 0]
    assert found["macro_f1"] == [pytest.approx(100 * (2 * 4 / (2 * 4 + 4)) / 2), 100]  # class 1 is never the target


def test_before_any_class_there_is_nothing_to_report() -> None:
    found = report(torch.full((1, 3), -1), torch.zeros(1, 3), np.array([0, 1, 5]), since=np.ones(3))
    assert found == {"macro_f1": [None], "calibration_error": [None]}


@pytest.mark.parametrize("seed", range(3))
def test_class_by_class(seed: int) -> None:
    probabilities, targets = some_answers(seed)
    labels = probabilities.argmax(dim=1)
    found = by_class(labels, targets, CLASSES + 1)  # the last label has no samples
    expected = confusion_matrix(targets, labels.numpy(), labels=range(CLASSES + 1))
    np.testing.assert_array_equal(found["confusion"], expected)
    right = [accuracy(labels.numpy(), targets, targets == label) for label in range(CLASSES)]  # from counts
    np.testing.assert_allclose(found["accuracy"], [*right, np.nan], rtol=1e-6)


def test_a_sample_without_a_prediction_is_wrong() -> None:
    found = by_class(torch.tensor([-1, 0]), np.array([0, 0]), classes=1)
    assert found["accuracy"].tolist() == [50.0]
    assert found["confusion"].tolist() == [[1]]
