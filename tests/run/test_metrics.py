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
def test_accuracies_agree_with_torchmetrics_and_loops(seed):
    random = np.random.default_rng(seed)
    tasks, samples, classes = 4, 60, 8
    targets, task_of = random.integers(0, classes, samples), random.integers(-1, tasks, samples)
    since = random.integers(0, tasks, classes)[targets]
    predictions = np.where(
        random.random((tasks, samples)) < 0.5, targets, random.integers(0, classes, (tasks, samples))
    )
    matrix = metrics.accuracy_matrix(predictions, targets, task_of)
    curves = metrics.curves(predictions, targets, task_of, since)
    for i in range(tasks):

        def accuracy(chosen, i=i):
            made, true = torch.from_numpy(predictions[i][chosen]), torch.from_numpy(targets[chosen])
            return 100 * float(multiclass_accuracy(made, true, classes, average="micro"))

        for j in range(tasks):
            assert matrix[i, j] == pytest.approx(accuracy(task_of == j), rel=1e-6)
        assert curves["whole_accuracy"][i] == pytest.approx(accuracy(np.full(samples, True)), rel=1e-6)
        assert curves["seen_accuracy"][i] == pytest.approx(accuracy(since <= i), rel=1e-6)
        assert curves["anytime_accuracy"][i] == pytest.approx(np.mean(curves["seen_accuracy"][: i + 1]))


def test_accuracy_is_micro_not_macro():
    predictions, targets = np.array([[0, 0, 0, 0]]), np.array([0, 0, 0, 1])
    assert metrics.accuracy_matrix(predictions, targets, np.zeros(4, int)) == 75.0  # macro would be 50


def test_an_interrupted_run_has_the_curves_of_the_whole_one_so_far():
    random = np.random.default_rng(0)
    targets, task_of = random.integers(0, 3, 30), random.integers(0, 4, 30)
    predictions = random.integers(0, 3, (4, 30))
    whole = metrics.curves(predictions, targets, task_of, task_of)
    part = metrics.curves(predictions[:2], targets, task_of, task_of)
    for name, curve in part.items():
        np.testing.assert_array_equal(curve, whole[name][:2], err_msg=name)
