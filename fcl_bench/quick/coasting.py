"""Where weights go by themselves: under SGD, when nothing moves them but their own decay, momentum and a constant.

The gradient of such a weight is ``decay * w + constant``, so that after any number of steps it is one number times
where it began plus another times the constant. Momentum begins at zero in every fit.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fcl_bench.pull import Pull


@dataclass(frozen=True)
class Descent:
    """The settings of ``torch.optim.SGD``."""

    lr: float
    momentum: float
    weight_decay: float


@dataclass(frozen=True)
class Hold:
    """The part of the gradient of a parameter that no sample has a part in: ``decay * w + constant``."""

    decay: float | Tensor  # the same for all of its numbers, or one for each
    constant: Tensor | None = None

    def at(self, rows: Tensor | None) -> Self:
        """Of some rows of the parameter, of all for None."""
        if rows is None:
            return self
        decay = self.decay
        if isinstance(decay, Tensor):
            decay = decay.index_select(0, rows)
        constant = None if self.constant is None else self.constant.index_select(0, rows)
        return type(self)(decay, constant)


def hold(name: str, value: Tensor, pull: Pull | None, weight_decay: float) -> Hold:
    """What holds a parameter, by the optimizer and by the loss."""
    if pull is None:
        return Hold(weight_decay)
    slope = pull.slope[name].to(value.device) if pull.slope else None
    if name not in pull.anchor:
        return Hold(weight_decay, slope)
    anchor = pull.anchor[name].to(value.device)
    stiffness = pull.stiffness
    if isinstance(stiffness, dict) or len(anchor) < len(value):
        stiff = torch.zeros_like(value)
        stiff[: len(anchor)] = stiffness[name].to(value.device) if isinstance(stiffness, dict) else stiffness
        constant = torch.zeros_like(value)
        constant[: len(anchor)] = -stiff[: len(anchor)] * anchor
        decay: float | Tensor = weight_decay + stiff
    else:
        constant = -stiffness * anchor
        decay = weight_decay + stiffness
    return Hold(decay, constant if slope is None else constant + slope)


@dataclass
class Course:
    """A weight as ``start`` times where it began plus ``constant`` times the constant in its gradient."""

    start: float = 1.0
    constant: float = 0.0
    start_momentum: float = 0.0
    constant_momentum: float = 0.0

    def step(self, decay: float, descent: Descent) -> None:
        """One step of SGD."""
        self.start_momentum = descent.momentum * self.start_momentum + decay * self.start
        self.constant_momentum = descent.momentum * self.constant_momentum + decay * self.constant + 1
        self.start -= descent.lr * self.start_momentum
        self.constant -= descent.lr * self.constant_momentum

    def of(self, start: Tensor, constant: Tensor | None) -> Tensor:
        """The weight itself."""
        moved = self.start * start
        return moved if constant is None else moved.add_(constant, alpha=self.constant)


def coasted(start: Tensor, held: Hold, steps: int, descent: Descent) -> Tensor:
    """Weights after so many steps without samples.

    >>> coasted(torch.ones(1), Hold(decay=0.5), 2, Descent(lr=1.0, momentum=0.0, weight_decay=0.5))
    tensor([0.2500])
    """
    if isinstance(held.decay, Tensor):
        return walked(start, held.decay, held.constant, steps, descent)
    course = Course()
    for _ in range(steps):
        course.step(held.decay, descent)
    return course.of(start, held.constant)


def walked(start: Tensor, decay: Tensor, constant: Tensor | None, steps: int, descent: Descent) -> Tensor:
    """The same step by step, where every weight has a decay of its own."""
    value = start.clone()
    momentum = torch.zeros_like(value)
    for _ in range(steps):
        momentum.mul_(descent.momentum).addcmul_(decay, value)
        if constant is not None:
            momentum.add_(constant)
        value.sub_(momentum, alpha=descent.lr)
    return value
