r"""The metrics of continual learning: pure functions of numbers of right predictions, in percent.

``matrix[i, j]`` is A_j^i, the accuracy on the test set of task j after learning task i, counted from 0 here. A task
without test samples has no accuracy (NaN) and is left out of every mean. The worked example of the doctests: two test
samples per task; after task 0 both samples of task 0 are right; after task 1, one of them, and both of task 1.

>>> predictions, targets = np.array([[5, 5, 5, 5], [5, 7, 7, 7]]), np.array([5, 5, 7, 7])
>>> members = np.array([[True, True, False, False], [False, False, True, True]])
>>> matrix = accuracy_matrix(predictions, targets, members)
>>> matrix
array([[100.,   0.],
       [ 50., 100.]])
"""

import warnings
from collections.abc import Callable, Sized

import numpy as np

Curve = np.ndarray  # one value after each task


def accuracy_matrix(predictions: np.ndarray, targets: np.ndarray, members: np.ndarray) -> np.ndarray:
    """A_j^i for each step i so far and every task j; ``members[j, s]``: whether sample s is in the test of task j."""
    sizes = members.sum(axis=1)
    right = (predictions == targets).astype(float) @ members.T  # (steps, tasks): whole numbers, so exact
    return _percent(right, sizes)


def accuracy(predictions: np.ndarray, targets: np.ndarray, chosen: np.ndarray) -> float:
    """Percent right among the chosen test samples.

    >>> accuracy(np.array([5, 7, 7]), np.array([5, 5, 7]), np.array([True, True, False]))
    50.0
    """
    return float(_percent(np.sum((predictions == targets) & chosen), np.sum(chosen)))


def average_accuracy(matrix: np.ndarray) -> Curve:
    """A_i: mean over the tasks learned so far. The headline of a run is its last value.

    >>> average_accuracy(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([100.,  75.])
    """
    return _curve(matrix, lambda i: matrix[i, : i + 1])


def retention(matrix: np.ndarray) -> Curve:
    """F_i: mean over earlier tasks of A_j^i / A_j^j; above 1 is knowledge gained. Tasks with A_j^j = 0 are left out.

    >>> retention(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([nan, 0.5])
    """
    return _curve(matrix, lambda i: _ratio(matrix[i, :i], matrix.diagonal()[:i]))


def retention_as_printed(matrix: np.ndarray) -> Curve:
    """The inverse ratio A_j^j / A_j^i, as the AFCL paper prints it. Tasks with A_j^i = 0 are left out.

    >>> retention_as_printed(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([nan,  2.])
    """
    return _curve(matrix, lambda i: _ratio(matrix.diagonal()[:i], matrix[i, :i]))


def retention_left_out(matrix: np.ndarray) -> Curve:
    """How many earlier tasks have no retention, their accuracy A_j^j being zero.

    >>> retention_left_out(np.array([[0.0, 0.0], [50.0, 100.0]]))
    array([0., 1.])
    """
    return np.array([np.sum(matrix.diagonal()[:i] == 0) for i in range(len(matrix))], dtype=float)


def stability(matrix: np.ndarray) -> Curve:
    """S_i: mean over steps k = 1..i of the mean accuracy after k on the tasks before k.

    >>> stability(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([nan, 50.])
    """
    before = step_stability(matrix)
    return _curve(matrix, lambda i: before[1 : i + 1])


def plasticity(matrix: np.ndarray) -> Curve:
    """P_i: mean accuracy on each task right after learning it.

    >>> plasticity(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([100., 100.])
    """
    return _curve(matrix, lambda i: matrix.diagonal()[: i + 1])


def step_stability(matrix: np.ndarray) -> Curve:
    """Mean accuracy after this step on the tasks before it: what :func:`stability` is the mean of.

    >>> step_stability(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([nan, 50.])
    """
    return _curve(matrix, lambda i: matrix[i, :i])


def step_plasticity(matrix: np.ndarray) -> Curve:
    """A_i^i, the accuracy after this step on its own task: what :func:`plasticity` is the mean of.

    >>> step_plasticity(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([100., 100.])
    """
    return matrix.diagonal().copy()


def forgetting(matrix: np.ndarray) -> Curve:
    """Mean over earlier tasks of the best accuracy at any earlier step minus the accuracy now.

    >>> forgetting(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([nan, 50.])
    """

    def best_before(i: int) -> np.ndarray:  # of the steps at which the task was tested
        return np.fmax.reduce(matrix[:i, :i], axis=0, initial=np.nan)

    return _curve(matrix, lambda i: best_before(i) - matrix[i, :i])


def backward_transfer(matrix: np.ndarray) -> Curve:
    """Mean over earlier tasks of the accuracy now minus that right after learning them.

    >>> backward_transfer(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([ nan, -50.])
    """
    return _curve(matrix, lambda i: matrix[i, :i] - matrix.diagonal()[:i])


MATRIX_METRICS: tuple[Callable[[np.ndarray], Curve], ...] = (
    average_accuracy,
    retention,
    retention_as_printed,
    retention_left_out,
    stability,
    plasticity,
    forgetting,
    backward_transfer,
    step_stability,
    step_plasticity,
)


def curves(matrix: np.ndarray) -> dict[str, Curve]:
    """Every metric of the matrix after each task, by name.

    >>> curves(np.array([[100.0, 0.0], [50.0, 100.0]]))["average_accuracy"]
    array([100.,  75.])
    """
    return {metric.__name__: metric(matrix) for metric in MATRIX_METRICS}


def accuracy_curves(predictions: np.ndarray, targets: np.ndarray, since: np.ndarray) -> dict[str, Curve]:
    """Accuracies that need no tests of tasks; ``since`` is the task in which a test sample's class was registered.

    >>> predictions, targets = np.array([[5, 5, 5, 5], [5, 7, 7, 7]]), np.array([5, 5, 7, 7])
    >>> result = accuracy_curves(predictions, targets, since=np.array([0, 0, 1, 1]))
    >>> result["seen_accuracy"], result["whole_accuracy"], result["anytime_accuracy"]
    (array([100.,  75.]), array([50., 75.]), array([100. ,  87.5]))
    """
    everything = np.ones(len(targets), dtype=bool)
    seen = np.array([accuracy(row, targets, since <= i) for i, row in enumerate(predictions)])
    return {
        "seen_accuracy": seen,
        "whole_accuracy": np.array([accuracy(row, targets, everything) for row in predictions]),
        "anytime_accuracy": _curve(seen, lambda i: seen[: i + 1]),
    }


def _percent(right: np.ndarray, of: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return 100 * right / np.where(of == 0, np.nan, of)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    return numerator / np.where(denominator == 0, np.nan, denominator)


def _curve(steps: Sized, values: Callable[[int], np.ndarray]) -> Curve:
    """The mean of ``values(i)`` for each step i, NaN where there is nothing to average."""
    return np.array([_mean(values(i)) for i in range(len(steps))])


def _mean(values: np.ndarray) -> float:
    """As ``np.nanmean``, to the bit, but quick where all is defined."""
    if len(values) == 0:
        return np.nan
    if not np.isnan(values).any():
        return float(np.add.reduce(values) / len(values))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")
        return float(np.nanmean(values))
