import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_accuracy

from fcl_bench.run import metrics


def brute_force(matrix):
    """Every definition spelled out with loops, tasks counted from 1 as in the paper."""

    def a(j, i):
        return matrix[i - 1][j - 1]

    def mean(values):
        values = [value for value in values if not math.isnan(value)]
        return sum(values) / len(values) if values else math.nan

    def over(x, y):
        return x / y if y else math.nan

    tasks = range(1, len(matrix) + 1)
    return {
        "average_accuracy": [mean([a(j, i) for j in range(1, i + 1)]) for i in tasks],
        "retention": [mean([over(a(j, i), a(j, j)) for j in range(1, i)]) for i in tasks],
        "retention_as_printed": [mean([over(a(j, j), a(j, i)) for j in range(1, i)]) for i in tasks],
        "retention_left_out": [float(sum(a(j, j) == 0 for j in range(1, i))) for i in tasks],
        "stability": [mean([mean([a(j, k) for j in range(1, k)]) for k in range(2, i + 1)]) for i in tasks],
        "plasticity": [mean([a(j, j) for j in range(1, i + 1)]) for i in tasks],
        "forgetting": [mean([max(a(j, k) for k in range(1, i)) - a(j, i) for j in range(1, i)]) for i in tasks],
        "backward_transfer": [mean([a(j, i) - a(j, j) for j in range(1, i)]) for i in tasks],
        "step_stability": [mean([a(j, i) for j in range(1, i)]) for i in tasks],
        "step_plasticity": [a(i, i) for i in tasks],
    }


@pytest.mark.parametrize("seed", range(20))
def test_matrix_metrics_agree_with_brute_force(seed):
    random = np.random.default_rng(seed)
    matrix = 100 * random.random((random.integers(1, 8),) * 2)
    matrix[random.random(matrix.shape) < 0.1] = 0  # tasks that were never learned
    if seed % 4 == 0:
        matrix[:, random.integers(len(matrix))] = np.nan  # a task without test samples
    expected = brute_force(matrix.tolist())
    for metric in metrics.MATRIX_METRICS:
        np.testing.assert_allclose(metric(matrix), expected[metric.__name__], rtol=1e-12, err_msg=metric.__name__)


@pytest.mark.parametrize("seed", range(5))
def test_accuracies_agree_with_torchmetrics(seed):
    random = np.random.default_rng(seed)
    tasks, samples, classes = 4, 60, 8
    targets = random.integers(0, classes, samples)
    members = random.random((tasks, samples)) < 0.3  # a sample may be in several tests, or in none
    predictions = np.where(
        random.random((tasks, samples)) < 0.5, targets, random.integers(0, classes, (tasks, samples))
    )
    matrix = metrics.accuracy_matrix(predictions, targets, members)
    for i, j in np.ndindex(tasks, tasks):
        made, true = torch.from_numpy(predictions[i][members[j]]), torch.from_numpy(targets[members[j]])
        expected = 100 * float(multiclass_accuracy(made, true, classes, average="micro"))
        assert matrix[i, j] == pytest.approx(expected, rel=1e-6)
        assert metrics.accuracy(predictions[i], targets, members[j]) == matrix[i, j]


def test_accuracies_without_tests_of_tasks_agree_with_torchmetrics():
    random = np.random.default_rng(0)
    targets, since = random.integers(0, 8, 60), random.integers(0, 4, 8)
    predictions = np.where(random.random((4, 60)) < 0.5, targets, random.integers(0, 8, (4, 60)))
    found = metrics.accuracy_curves(predictions, targets, since[targets])
    for i in range(4):
        for name, chosen in (("whole_accuracy", np.full(60, True)), ("seen_accuracy", since[targets] <= i)):
            made, true = torch.from_numpy(predictions[i][chosen]), torch.from_numpy(targets[chosen])
            expected = 100 * float(multiclass_accuracy(made, true, 8, average="micro"))
            assert found[name][i] == pytest.approx(expected, rel=1e-6)
        assert found["anytime_accuracy"][i] == pytest.approx(np.mean(found["seen_accuracy"][: i + 1]))


def test_accuracy_is_micro_not_macro():
    predictions, targets = np.array([[0, 0, 0, 0]]), np.array([0, 0, 0, 1])
    assert metrics.accuracy_matrix(predictions, targets, np.ones((1, 4), bool)) == 75.0  # macro would be 50


def test_an_interrupted_run_has_the_curves_of_the_whole_one_so_far():
    random = np.random.default_rng(0)
    targets, members = random.integers(0, 3, 30), random.random((4, 30)) < 0.5
    predictions = random.integers(0, 3, (4, 30))
    since = random.integers(0, 4, 30)

    def curves(rows):
        matrix = metrics.accuracy_matrix(rows, targets, members)
        return metrics.curves(matrix) | metrics.accuracy_curves(rows, targets, since)

    whole = curves(predictions)
    part = curves(predictions[:2])
    for name, curve in part.items():
        np.testing.assert_array_equal(curve, whole[name][:2], err_msg=name)


def test_forgetting_needs_no_tests_of_tasks_to_come():
    """Code that tests after each task only the tasks so far knows nothing above the diagonal."""
    matrix = np.array([[90.0, 5.0, 7.0], [80.0, 70.0, 9.0], [60.0, 50.0, 40.0]])
    unknown = np.where(np.triu(np.ones((3, 3)), k=1) > 0, np.nan, matrix)
    np.testing.assert_array_equal(metrics.forgetting(unknown), [np.nan, 10.0, (30 + 20) / 2])
    np.testing.assert_array_equal(metrics.forgetting(matrix), metrics.forgetting(unknown))
