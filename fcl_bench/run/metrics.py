r"""Everything computed from predictions and the stream: pure functions, in percent.

``matrix[i, j]`` is A_j^i, the accuracy on the test set of task j after learning task i, counted from 0 here. A task
without test samples has no accuracy (NaN) and is left out of every mean. The worked example of the doctests: two test
samples per task; after task 0 both samples of task 0 are right; after task 1, one of them, and both of task 1.

>>> predictions = np.array([[5, 5, 5, 5], [5, 7, 7, 7]])
>>> targets, task_of = np.array([5, 5, 7, 7]), np.array([0, 0, 1, 1])
>>> matrix = accuracy_matrix(predictions, targets, task_of)
>>> matrix
array([[100.,   0.],
       [ 50., 100.]])
"""

import warnings
from collections.abc import Callable

import numpy as np

Curve = np.ndarray  # one value after each task


def accuracy_matrix(predictions: np.ndarray, targets: np.ndarray, task_of: np.ndarray) -> np.ndarray:
    """A_j^i for each step i so far and every task j; ``task_of`` is the task of each test sample, -1 for none."""
    tasks = max(len(predictions), task_of.max(initial=-1) + 1)
    dealt = task_of >= 0
    sizes = np.bincount(task_of[dealt], minlength=tasks)
    right = [np.bincount(task_of[dealt & (row == targets)], minlength=tasks) for row in predictions]
    return _percent(np.reshape(right, (len(predictions), tasks)), sizes)


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
    before = _curve(matrix, lambda k: matrix[k, :k])
    return _curve(matrix, lambda i: before[1 : i + 1])


def plasticity(matrix: np.ndarray) -> Curve:
    """P_i: mean accuracy on each task right after learning it.

    >>> plasticity(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([100., 100.])
    """
    return _curve(matrix, lambda i: matrix.diagonal()[: i + 1])


def forgetting(matrix: np.ndarray) -> Curve:
    """Mean over earlier tasks of the best accuracy at any earlier step minus the accuracy now.

    >>> forgetting(np.array([[100.0, 0.0], [50.0, 100.0]]))
    array([nan, 50.])
    """
    return _curve(matrix, lambda i: matrix[:i, :i].max(axis=0, initial=-np.inf) - matrix[i, :i])


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
)


def curves(predictions: np.ndarray, targets: np.ndarray, task_of: np.ndarray, since: np.ndarray) -> dict[str, Curve]:
    """Every accuracy metric after each task; ``since`` is the task in which a test sample's class was registered.

    >>> predictions, targets = np.array([[5, 5, 5, 5], [5, 7, 7, 7]]), np.array([5, 5, 7, 7])
    >>> result = curves(predictions, targets, task_of=np.array([0, 0, 1, 1]), since=np.array([0, 0, 1, 1]))
    >>> result["seen_accuracy"], result["whole_accuracy"], result["anytime_accuracy"]
    (array([100.,  75.]), array([50., 75.]), array([100. ,  87.5]))
    """
    matrix = accuracy_matrix(predictions, targets, task_of)
    steps = list(enumerate(predictions))
    everything = np.ones(len(targets), dtype=bool)
    result = {metric.__name__: metric(matrix) for metric in MATRIX_METRICS}
    seen = np.array([accuracy(row, targets, since <= i) for i, row in steps])
    result["seen_accuracy"] = seen
    result["whole_accuracy"] = np.array([accuracy(row, targets, everything) for _, row in steps])
    result["anytime_accuracy"] = _curve(matrix, lambda i: seen[: i + 1])
    return result


def _percent(right: np.ndarray, of: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return 100 * right / np.where(of == 0, np.nan, of)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    return numerator / np.where(denominator == 0, np.nan, denominator)


def _curve(matrix: np.ndarray, values: Callable[[int], np.ndarray]) -> Curve:
    """The mean of ``values(i)`` for each step i, NaN where there is nothing to average."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")
        return np.array([np.nanmean(values(i)) for i in range(len(matrix))])
