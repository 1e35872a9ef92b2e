"""Which test samples make up the test of a task: three views of the same predictions.

``dealt``: the test samples that the stream deals to the task, as it deals training samples. ``first_seen``: all test
samples of the classes that are registered in the task. ``present``: all test samples of every class that some client
holds training samples of in the task; tests of this view overlap.
"""

import numpy as np

from fcl_bench.run.result import VIEWS
from fcl_bench.stream import Stream


def memberships(stream: Stream, targets: np.ndarray) -> dict[str, np.ndarray]:
    """For every view a matrix (tasks, test samples) that says which sample is in the test of which task."""
    views = (_dealt(stream, len(targets)), _first_seen(stream, targets), _present(stream, targets))
    return dict(zip(VIEWS, views, strict=True))


def registered_in(stream: Stream, targets: np.ndarray) -> np.ndarray:
    """The task in which the class of each test sample is registered; the number of tasks for a class that never is."""
    of_class = [task.index for task in stream.tasks for _ in task.new]
    return np.array([*of_class, len(stream.tasks)])[stream.number[targets]]  # the number -1 is the last entry


def _dealt(stream: Stream, samples: int) -> np.ndarray:
    members = np.zeros((len(stream.tasks), samples), dtype=bool)
    for task in stream.tasks:
        members[task.index, stream.test_indices(task.index)] = True
    return members


def _first_seen(stream: Stream, targets: np.ndarray) -> np.ndarray:
    tasks = np.arange(len(stream.tasks))
    return tasks[:, None] == registered_in(stream, targets)


def _present(stream: Stream, targets: np.ndarray) -> np.ndarray:
    held = np.zeros((len(stream.tasks), len(stream.order) + 1), dtype=bool)  # the last column: never registered
    task, _, number, _ = stream.counts.T
    held[task, number] = True
    return held[:, stream.number[targets]]
