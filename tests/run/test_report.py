"""What torchmetrics says about a classifier, against counts, scikit-learn and a calibration error by hand."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, f1_score
from torchmetrics.functional.classification import multiclass_calibration_error

from fcl_bench.run.evaluate import Answers
from fcl_bench.run.metrics import accuracy
from fcl_bench.run.report import by_class, report

CLASSES = 7


def some_answers(seed: int) -> tuple[Answers, torch.Tensor, np.ndarray, np.ndarray]:
    """Answers with the probabilities they come from, targets, and which samples are of a seen class."""
    random = np.random.default_rng(seed)
    targets = random.integers(0, CLASSES, 500)
    seen = targets < CLASSES - 2
    scores = torch.tensor(random.normal(size=(500, CLASSES - 2)) + 2 * np.eye(CLASSES)[targets][:, : CLASSES - 2])
    confidences, labels = scores.softmax(dim=1).max(dim=1)
    return Answers(labels.numpy(), confidences.float().numpy()), scores.softmax(dim=1), targets, seen


@pytest.mark.parametrize("seed", range(5))
def test_a_report_agrees_with_counts_and_other_libraries(seed: int) -> None:
    answers, probabilities, targets, seen = some_answers(seed)
    found = report(answers, targets, seen)
    everything = np.ones(500, dtype=bool)
    assert found["whole_accuracy"] == accuracy(answers.labels, targets, everything)  # to the last digit
    assert found["seen_accuracy"] == accuracy(answers.labels, targets, seen)
    f1 = f1_score(targets[seen], answers.labels[seen], average="macro", zero_division=0)
    assert found["macro_f1"] == pytest.approx(100 * f1, rel=1e-5)
    error = multiclass_calibration_error(
        probabilities[torch.from_numpy(seen)].float(), torch.from_numpy(targets[seen]), CLASSES - 2, n_bins=15
    )
    assert found["calibration_error"] == pytest.approx(100 * float(error), rel=1e-5)


def test_the_calibration_error_by_hand() -> None:
    """Confidence 0.9 with 3 of 4 right, and 0.6 with 1 of 4 right: the mean of |0.75 - 0.9| and |0.25 - 0.6|."""
    answers = Answers(np.array([0, 0, 0, 1, 0, 1, 1, 1]), np.array([0.9] * 4 + [0.6] * 4, dtype=np.float32))
    found = report(answers, np.zeros(8, dtype=np.int64), np.ones(8, dtype=bool))
    assert found["calibration_error"] == pytest.approx(100 * (0.15 + 0.35) / 2, rel=1e-5)


def test_without_a_class_there_is_nothing_but_wrong_answers() -> None:
    answers = Answers(np.full(3, -1), np.zeros(3, dtype=np.float32))
    found = report(answers, np.array([0, 1, 5]), np.zeros(3, dtype=bool))
    assert found == {"seen_accuracy": None, "whole_accuracy": 0.0, "macro_f1": None, "calibration_error": None}


@pytest.mark.parametrize("seed", range(3))
def test_class_by_class(seed: int) -> None:
    answers, _, targets, _ = some_answers(seed)
    found = by_class(answers.labels, targets, CLASSES + 1)  # the last label has no samples
    expected = confusion_matrix(targets, answers.labels, labels=range(CLASSES + 1))
    np.testing.assert_array_equal(found["confusion"], expected)
    right = [100 * np.mean(answers.labels[targets == label] == label) for label in range(CLASSES)]
    np.testing.assert_allclose(found["accuracy"], [*right, np.nan], rtol=1e-6)


def test_a_sample_without_a_prediction_is_wrong() -> None:
    found = by_class(np.array([-1, 0]), np.array([0, 0]), classes=1)
    assert found["accuracy"].tolist() == [50.0]
    assert found["confusion"].tolist() == [[1]]
