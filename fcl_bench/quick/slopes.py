"""The gradient of the loss of a batch with respect to its logits: by a formula where it is known, else by autograd.

The formula is that of :meth:`fcl_bench.losses.CrossEntropy.cross_entropy`, and is used only where the loss is nothing
but that and the client has few samples, on which autograd takes longer than all products of a step.
"""

from functools import cache

import torch
from torch import Tensor, nn

from fcl_bench.losses import CrossEntropy
from fcl_bench.quick.samples import Pool, Target
from fcl_bench.quick.structure import Training, holder

FEW = 256  # samples


class Slopes:
    """Of one fit."""

    def __init__(self, training: Training, pool: Pool):
        self.pool = pool
        self.formula = pool.own <= FEW and by_formula(training)
        if not self.formula:
            self.loss = training.narrowed()
            return
        prior = training.module.prior
        self.prior = None if prior is None else prior.to(pool.inputs.device)
        self.minus = pool.inputs.new_full((pool.own, 1), -1.0)

    def at(self, logits: Tensor, target: Target) -> Tensor:
        """Of a step; ``logits`` are written over."""
        if not self.formula:
            return self._by_autograd(logits, target)
        if self.prior is not None:
            logits.add_(self.prior)
        slope = nn.functional.softmax(logits, dim=1)
        samples = len(target.labels)
        return slope.scatter_add_(1, target.labels[:, None], self.minus[:samples]).div_(samples)

    def _by_autograd(self, logits: Tensor, target: Target) -> Tensor:
        logits.requires_grad_()
        with torch.enable_grad():
            loss = self.pool.loss(self.loss, logits, target)
        (slope,) = torch.autograd.grad(loss, logits)
        return slope


def by_formula(training: Training) -> bool:
    """Whether the loss of samples is the cross-entropy over exactly the rows of the head that take part."""
    columns = training.module.columns
    alone = columns is None or len(columns) == training.classes
    kind: type = type(training.module)
    return alone and is_cross_entropy(kind)


@cache
def is_cross_entropy(kind: type) -> bool:
    """Whether a loss of this class looks at samples as :class:`CrossEntropy` does."""
    parts = ("loss_of_logits", "cross_entropy", "rows", "narrowed", "replays")
    return all(holder(kind, part) is CrossEntropy for part in parts)
