"""The metrics of continual learning as torchmetrics: for anybody's Lightning module or loop, not only for this suite.

After learning each task, test the model on the task tests and call ``update(preds, target, task, step)``. ``compute``
gives the value after the last step so far, in percent (retention: a ratio). NaN is undefined, such as forgetting after
a single task. Tasks and steps count from 0. The definitions are those of :mod:`fcl_bench.run.metrics`.

>>> metric = AverageAccuracy(tasks=2)
>>> metric.update(torch.tensor([5, 5]), torch.tensor([5, 5]), task=0, step=0)
>>> metric.update(torch.tensor([5, 7, 7, 7]), torch.tensor([5, 5, 7, 7]), task=torch.tensor([0, 0, 1, 1]), step=1)
>>> metric.compute()
tensor(75., dtype=torch.float64)
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from fcl_bench.errors import ConfigError
from fcl_bench.run import metrics


class TaskMetric(Metric):
    """What all of them share: the numbers of samples and of right predictions, by step and task."""

    full_state_update = False
    is_differentiable = False
    curve: "staticmethod[[np.ndarray], np.ndarray]"  # from the accuracy matrix (steps, tasks) to a value per step
    right: Tensor  # (steps, tasks)
    samples: Tensor  # (steps, tasks)

    def __init__(self, tasks: int, **settings: Any):
        """``tasks``: how many there are; ``settings``: those of every :class:`torchmetrics.Metric`."""
        super().__init__(**settings)
        if tasks < 1:
            raise ConfigError(f"Expected tasks to be at least 1, the number of all tasks to come, but got {tasks}.")
        self.tasks = tasks
        for name in ("right", "samples"):
            self.add_state(name, torch.zeros(tasks, tasks, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor, task: Tensor | int, step: int) -> None:
        """Count predictions that were made after learning task ``step``.

        ``preds`` are labels (n,) or scores (n, classes), ``task`` the one of each sample's test, or of all. A sample
        that is in the tests of several tasks is given once for each of them.
        """
        if not 0 <= step < self.tasks:
            raise ConfigError(f"Expected step to be from 0 to {self.tasks - 1}, the last task, but got {step}.")
        labels = preds.argmax(dim=1) if preds.ndim > target.ndim else preds
        of_task = torch.as_tensor(task, device=target.device).expand(target.shape)
        if ((of_task < 0) | (of_task >= self.tasks)).any():
            wrong = sorted(set(of_task.tolist()) - set(range(self.tasks)))
            raise ConfigError(f"Expected every task to be from 0 to {self.tasks - 1}, the last one, but got {wrong}.")
        self.samples[step] += torch.bincount(of_task, minlength=self.tasks)
        self.right[step] += torch.bincount(of_task[labels == target], minlength=self.tasks)

    def compute(self) -> Tensor:
        """The value after the last step so far."""
        samples = self.samples.cpu().numpy()
        steps = 1 + max(np.flatnonzero(samples.any(axis=1)), default=-1)
        matrix = 100 * self.right.cpu().numpy()[:steps] / np.where(samples == 0, np.nan, samples)[:steps]
        values = self.curve(matrix)
        return torch.tensor(values[-1] if steps else np.nan, dtype=torch.float64)


class AverageAccuracy(TaskMetric):
    """Mean accuracy on the tasks learned so far."""

    higher_is_better = True
    curve = staticmethod(metrics.average_accuracy)


class Retention(TaskMetric):
    """Mean over earlier tasks of the accuracy now by that right after learning the task; above 1 is a gain."""

    higher_is_better = True
    curve = staticmethod(metrics.retention)


class Stability(TaskMetric):
    """Mean over steps of the mean accuracy on the tasks before the step."""

    higher_is_better = True
    curve = staticmethod(metrics.stability)


class Plasticity(TaskMetric):
    """Mean accuracy on each task right after learning it."""

    higher_is_better = True
    curve = staticmethod(metrics.plasticity)


class Forgetting(TaskMetric):
    """Mean over earlier tasks of the best accuracy at any earlier step minus the accuracy now."""

    higher_is_better = False
    curve = staticmethod(metrics.forgetting)


class BackwardTransfer(TaskMetric):
    """Mean over earlier tasks of the accuracy now minus that right after learning them."""

    higher_is_better = True
    curve = staticmethod(metrics.backward_transfer)
