"""Quick training of a linear head on fixed features: the same steps with less arithmetic, ``local=quick``.

What may go in: how a loss tells that it can be trained so, and the arithmetic that makes use of it. A loss says nothing
twice for it: its parts (:class:`fcl_bench.losses.CrossEntropy`) are those of every other way of training.

Rows of the head whose logits the loss does not look at are left out of every product, and end where a formula says.
Where a client has fewer samples than features, the steps may be taken in the space of the samples.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fcl_bench import local
from fcl_bench.local import FabricFit, Indexable, batch_sizes
from fcl_bench.quick.samples import Pool, Step, pooled
from fcl_bench.quick.slopes import Slopes
from fcl_bench.quick.spaces import FeatureSpace, SampleSpace, Space
from fcl_bench.quick.structure import Training, quick_training
from fcl_bench.threads import threads_for

if TYPE_CHECKING:  # it takes seconds to import, and methods in closed form do without
    import lightning as L

POOLED = 1 << 28  # bytes of samples that are held in one piece; with more of them, the plain way takes parts
SHARED = 8  # over so many fits the products of all pairs of samples are thought to be shared


class QuickFit(FabricFit):
    """As :class:`FabricFit`, but quick where the loss has declared what makes that possible."""

    def __call__(self, module: "L.LightningModule", data: Indexable, epochs: int, batch_size: int) -> None:
        """See :class:`fcl_bench.local.Fit`."""
        if len(data) == 0:
            return
        training = self._training(module)
        if training is None or not small(data, training):
            super().__call__(module, data, epochs, batch_size)
            return
        with threads_for(training.head.weight.numel()), self._algorithms(), torch.no_grad():
            train(training, pooled(training, data, self.device), epochs, batch_size)

    def _training(self, module: "L.LightningModule") -> Training | None:
        """How to train a loss quickly on the device; None where the plain way is to be taken."""
        if self.precision != "32-true" or self.gradient_clip is not None or self.compile is not None:
            return None
        if self.device.type != "cpu":
            module.to(self.device)
        return quick_training(module)

    def _algorithms(self) -> AbstractContextManager[None]:
        return local.deterministic(True) if self.deterministic else nullcontext()


def small(data: Indexable, training: Training) -> bool:
    """Whether all samples may be held in one piece."""
    rows = len(data) + sum(map(len, training.draws))
    return rows * training.features * 4 <= POOLED


def train(training: Training, pool: Pool, epochs: int, batch_size: int) -> None:
    """Train the head in place."""
    space = space_for(training, pool, epochs)
    slopes = Slopes(training, pool)
    steps = taken_steps(pool, epochs, batch_size)
    for part in parts(steps, space.table):
        walk(space, slopes, pool, part)
    training.finish(*space.weights(), len(steps))


def taken_steps(pool: Pool, epochs: int, batch_size: int) -> list[Step]:
    """All steps of a fit. Their samples are drawn in the order of the plain way: an epoch, then from the buffers."""
    sizes = batch_sizes(pool.own, batch_size)
    steps = []
    for _ in range(epochs):
        order = torch.randperm(pool.own).split_with_sizes(sizes)
        steps += [pool.step(positions) for positions in order]
    return steps


def space_for(training: Training, pool: Pool, epochs: int) -> Space:
    """Where the steps are taken: where the sizes say that there are fewer multiplications."""
    if training.uniform and sample_space_is_less_work(training, pool, epochs):
        return SampleSpace(training, pool.inputs)
    return FeatureSpace(training, pool.inputs)


def sample_space_is_less_work(training: Training, pool: Pool, epochs: int) -> bool:
    """By the numbers of multiplications; samples must be fewer than features."""
    rows = len(pool.inputs)
    features = training.features
    classes = training.classes
    seen = epochs * pool.own * (1 + len(pool.draws))  # rows of all batches together
    there = 2 * seen * features * classes
    here = seen * rows * classes + 2 * rows * features * classes + rows * rows * features // SHARED
    return rows < features and here < there


def parts(steps: list[Step], table: Tensor) -> Iterator[list[Step]]:
    """The steps in pieces whose rows of a table are gathered at once: one large step through memory is faster."""
    row = table.shape[1] * table.element_size()
    at_once = max(1, local.GATHERED // (row * len(steps[0].rows)))
    for start in range(0, len(steps), at_once):
        yield steps[start : start + at_once]


def walk(space: Space, slopes: Slopes, pool: Pool, steps: list[Step]) -> None:
    """Some of the steps of a fit."""
    sizes = [len(step.rows) for step in steps]
    rows = torch.cat([step.rows for step in steps])
    gathered = space.gathered(rows, sizes)
    targets = pool.targets(steps)
    for step, inputs, target in zip(steps, gathered, targets, strict=True):
        slope = slopes.at(space.logits(inputs), target)
        space.step(step.rows, inputs, slope)
