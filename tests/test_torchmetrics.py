"""The metrics of continual learning as torchmetrics, against the pure functions on random input."""

import numpy as np
import pytest
import torch

from fcl_bench.errors import ConfigError
from fcl_bench.metrics import AverageAccuracy, BackwardTransfer, Forgetting, Plasticity, Retention, Stability
from fcl_bench.run import metrics

PURE = {
    AverageAccuracy: metrics.average_accuracy,
    Retention: metrics.retention,
    Stability: metrics.stability,
    Plasticity: metrics.plasticity,
    Forgetting: metrics.forgetting,
    BackwardTransfer: metrics.backward_transfer,
}
TASKS, CLASSES, SAMPLES = 5, 6, 80
pytestmark = pytest.mark.filterwarnings("ignore:The ``compute`` method")  # before any update it is undefined


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions after every task, targets, and the test of each task: tests overlap."""
    random = np.random.default_rng(seed)
    targets = random.integers(0, CLASSES, SAMPLES)
    other = random.integers(0, CLASSES, (TASKS, SAMPLES))
    predictions = np.where(random.random((TASKS, SAMPLES)) < 0.4, targets, other)
    return predictions, targets, random.random((TASKS, SAMPLES)) < 0.3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", PURE, ids=lambda kind: kind.__name__)
def test_after_every_step_it_is_the_pure_function(kind: type, seed: int) -> None:
    predictions, targets, members = drawn(seed)
    curve = PURE[kind](metrics.accuracy_matrix(predictions, targets, members))
    metric = kind(tasks=TASKS)
    assert torch.isnan(metric.compute())
    for step in range(TASKS):
        for task in range(TASKS):
            chosen = np.flatnonzero(members[task])
            for batch in np.array_split(chosen, 3):
                preds, target = torch.from_numpy(predictions[step, batch]), torch.from_numpy(targets[batch])
                metric.update(preds, target, task, step)
        assert float(metric.compute()) == pytest.approx(curve[step], rel=1e-12, nan_ok=True)
    metric.reset()
    assert torch.isnan(metric.compute())


@pytest.mark.parametrize("kind", PURE, ids=lambda kind: kind.__name__)
def test_scores_and_a_task_for_each_sample(kind: type) -> None:
    predictions, targets, _ = drawn(1)
    task_of = torch.arange(SAMPLES) % TASKS
    members = task_of.numpy() == np.arange(TASKS)[:, None]
    metric = kind(tasks=TASKS)
    for step in range(TASKS):
        scores = torch.nn.functional.one_hot(torch.from_numpy(predictions[step]), CLASSES).float()
        metric.update(scores, torch.from_numpy(targets), task_of, step)
    curve = PURE[kind](metrics.accuracy_matrix(predictions, targets, members))
    assert float(metric.compute()) == pytest.approx(curve[-1], rel=1e-12)


def test_two_processes_add_up_to_one() -> None:
    """What torchmetrics does to states across processes is their sum."""
    predictions, targets, members = drawn(2)
    parts = [AverageAccuracy(TASKS), AverageAccuracy(TASKS)]
    for task in range(TASKS):
        for part, half in zip(parts, np.array_split(np.flatnonzero(members[task]), 2), strict=True):
            part.update(torch.from_numpy(predictions[0, half]), torch.from_numpy(targets[half]), task, step=0)
    whole = AverageAccuracy(TASKS)
    for name in ("right", "samples"):
        assert whole._reductions[name] is not None
        total = whole._reductions[name](torch.stack([getattr(part, name) for part in parts]))
        setattr(whole, name, total)
    expected = metrics.average_accuracy(metrics.accuracy_matrix(predictions[:1], targets, members))
    assert float(whole.compute()) == pytest.approx(expected[0])


def test_bad_numbers_are_named() -> None:
    nothing = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ConfigError, match=r"^Expected tasks to be at least 1, .* but got 0\.$"):
        Retention(tasks=0)
    with pytest.raises(ConfigError, match=r"^Expected step to be from 0 to 2, the last task, but got 3\.$"):
        Retention(tasks=3).update(nothing, nothing, task=0, step=3)
    with pytest.raises(ConfigError, match=r"^Expected every task to be from 0 to 2, .* but got \[-1, 7\]\.$"):
        Retention(tasks=3).update(nothing, nothing, task=torch.tensor([7, -1]), step=0)
