"""Which test a task has: three views of the same predictions, against brute force and the example of the docs."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome

from fcl_bench.datasets.gaussian import gaussian
from fcl_bench.partition import Dirichlet
from fcl_bench.run.metrics import accuracy_matrix, curves
from fcl_bench.run.views import memberships, registered_in
from fcl_bench.stream import Stream, make_stream
from fcl_bench.temporal import Disjoint, SiBlurry

MATRIX_METRICS = {
    *("average_accuracy", "retention", "retention_as_printed", "retention_left_out", "stability", "plasticity"),
    *("forgetting", "backward_transfer", "step_stability", "step_plasticity"),
}


def classes_of_tasks(stream: Stream, labels: np.ndarray) -> list[set[int]]:
    """The labels that the training samples of each task have."""
    clients = range(stream.clients)
    shares = [[stream.indices(task, client) for client in clients] for task in range(len(stream.tasks))]
    return [{int(labels[sample]) for share in task for sample in share} for task in shares]


@pytest.mark.parametrize("seed", range(5))
def test_every_view_is_that_of_brute_force(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels, targets = random.integers(0, 8, 400), random.integers(0, 9, 90)  # no client ever holds label 8
    stream = make_stream(labels, targets, SiBlurry(4, 0.5, 0.3), Dirichlet(3, 0.5), seed)
    predictions = np.where(random.random((4, 90)) < 0.5, targets, random.integers(0, 9, (4, 90)))
    shown = classes_of_tasks(stream, labels)
    tests = {
        "dealt": [set(stream.test_indices(j).tolist()) for j in range(4)],
        "first_seen": [of_labels(targets, shown[j] - set().union(*shown[:j])) for j in range(4)],
        "present": [of_labels(targets, shown[j]) for j in range(4)],
    }
    views = memberships(stream, targets)
    assert set(views) == set(tests)
    for view, members in views.items():
        assert [set(np.flatnonzero(row).tolist()) for row in members] == tests[view]
        matrix = accuracy_matrix(predictions, targets, members)
        for i, j in np.ndindex(4, 4):
            right = [predictions[i, sample] == targets[sample] for sample in tests[view][j]]
            expected = 100 * sum(right) / len(right) if right else np.nan
            assert matrix[i, j] == pytest.approx(expected, nan_ok=True)
    assert sum(map(len, tests["present"])) > len(set().union(*tests["present"]))  # they overlap


def of_labels(targets: np.ndarray, labels: set[int]) -> set[int]:
    return {sample for sample, target in enumerate(targets) if target in labels}


def test_on_a_disjoint_stream_all_views_are_one() -> None:
    labels, targets = np.arange(200) % 6, np.arange(60) % 6
    stream = make_stream(labels, targets, Disjoint(3), Dirichlet(3, 0.5), seed=1)
    dealt, first_seen, present = memberships(stream, targets).values()
    np.testing.assert_array_equal(dealt, first_seen)
    np.testing.assert_array_equal(dealt, present)
    np.testing.assert_array_equal(registered_in(stream, targets), first_seen.argmax(axis=0))


def test_the_example_of_the_docs() -> None:
    a, b, c = np.arange(10), np.arange(10, 20), np.arange(20, 30)
    targets = np.repeat([0, 1, 2], 10)
    right = np.zeros((2, 30), dtype=bool)
    right[0, [*a, b[0]]] = True
    right[1, [*a[:8], *b[:9], *c[:8]]] = True
    predictions = np.where(right, targets, 9)
    tests = {
        "dealt": ([*a, b[0]], [*b[1:], *c]),
        "first_seen": ([*a, *b], [*c]),
        "present": ([*a, *b], [*b, *c]),
    }
    expected = {  # A_1^1, A_1^2, A_2^2, average after the second task, retention
        "dealt": (100, 100 * 9 / 11, 100 * 16 / 19, 50 * (9 / 11 + 16 / 19), 9 / 11),
        "first_seen": (55, 85, 80, 82.5, 85 / 55),
        "present": (55, 85, 85, 85, 85 / 55),
    }
    for view, parts in tests.items():
        members = np.array([np.isin(np.arange(30), part) for part in parts])
        matrix = accuracy_matrix(predictions, targets, members)
        found = curves(matrix)
        figures = (matrix[0, 0], matrix[1, 0], matrix[1, 1], found["average_accuracy"][1], found["retention"][1])
        assert figures == pytest.approx(expected[view])
        assert found["step_stability"][1] == pytest.approx(expected[view][1])
        assert found["step_plasticity"].tolist() == pytest.approx([matrix[0, 0], matrix[1, 1]])


def test_a_record_has_every_view_of_its_predictions(afcl_run: Outcome) -> None:
    """By loops over the definitions; the classes of a task come from the manifest and the data set."""
    labels = gaussian("gaussian", Path(), 6, 240, 60, 16, separation=4.0, data_seed=0)
    stream = np.load(afcl_run.folder / "stream.npz")
    held = np.split(stream["samples"], np.cumsum(stream["sizes"].sum(axis=1))[:-1])
    shown = [set(labels.train.labels[samples].tolist()) for samples in held]
    new = [shown[j] - set().union(*shown[:j]) for j in range(3)]
    views = afcl_run.result["views"]
    assert set(views) == {"first_seen", "present"}
    for view, classes in (("first_seen", new), ("present", shown)):
        scores = views[view]
        A = [[accuracy(afcl_run.predictions[i], labels.test.labels, classes[j]) for j in range(3)] for i in range(3)]
        assert scores["matrix"] == [[None if np.isnan(x) else pytest.approx(x) for x in row] for row in A]
        assert set(scores["curves"]) == set(scores["metrics"]) == MATRIX_METRICS
        assert all(scores["metrics"][name] == curve[-1] for name, curve in scores["curves"].items())
        assert scores["curves"]["average_accuracy"][2] == pytest.approx(np.nanmean(A[2]))
        assert scores["curves"]["step_stability"][2] == pytest.approx(np.nanmean(A[2][:2]))


def accuracy(predictions: np.ndarray, targets: np.ndarray, classes: set[int]) -> float:
    right = [made == true for made, true in zip(predictions, targets, strict=True) if true in classes]
    return 100 * sum(right) / len(right) if right else np.nan
