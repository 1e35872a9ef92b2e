"""Where the weights of a head are moved: among the features themselves, or as combinations of samples.

Both take the same steps of SGD. A row of ``table`` is what a sample needs to have its logits computed; those of several
steps are gathered at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from fcl_bench.quick.coasting import Course, Hold
from fcl_bench.quick.pairs import products_of_pairs
from fcl_bench.quick.structure import Training


class Space(Protocol):
    """A head in training."""

    table: Tensor  # a row for every sample

    def gathered(self, rows: Tensor, sizes: Sequence[int]) -> Iterator[Any]:
        """What the logits of each of several steps are computed from; ``rows`` are those of all together."""
        ...

    def logits(self, inputs: Any) -> Tensor:
        """The logits of a step."""
        ...

    def step(self, rows: Tensor, inputs: Any, slope: Tensor) -> None:
        """Move the head, given the gradient with respect to the logits of these rows."""
        ...

    def weights(self) -> tuple[Tensor, Tensor]:
        """Weight and bias now."""
        ...


class FeatureSpace:
    """The weights as they are; a step has two products with the features of its samples."""

    def __init__(self, training: Training, inputs: Tensor):
        self.table = inputs
        self.descent = training.descent
        self.weight, self.weight_hold = training.weight()
        self.bias, self.bias_hold = training.bias()
        self.weight_momentum = torch.zeros_like(self.weight)
        self.bias_momentum = torch.zeros_like(self.bias)

    def gathered(self, rows: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
        """See :class:`Space`."""
        return iter(self.table.index_select(0, rows).split_with_sizes(list(sizes)))

    def logits(self, inputs: Tensor) -> Tensor:
        """See :class:`Space`."""
        return torch.addmm(self.bias, inputs, self.weight.T)

    def step(self, rows: Tensor, inputs: Tensor, slope: Tensor) -> None:
        """See :class:`Space`."""
        self.weight_momentum.addmm_(slope.T, inputs, beta=self.descent.momentum)
        self.bias_momentum.mul_(self.descent.momentum).add_(slope.sum(dim=0))
        self._move(self.weight, self.weight_momentum, self.weight_hold)
        self._move(self.bias, self.bias_momentum, self.bias_hold)

    def _move(self, value: Tensor, momentum: Tensor, held: Hold) -> None:
        if isinstance(held.decay, Tensor):
            momentum.addcmul_(held.decay, value)
        elif held.decay:
            momentum.add_(value, alpha=held.decay)
        if held.constant is not None:
            momentum.add_(held.constant)
        value.sub_(momentum, alpha=self.descent.lr)

    def weights(self) -> tuple[Tensor, Tensor]:
        """See :class:`Space`."""
        return self.weight, self.bias


class SampleSpace:
    """The weights as where they began, the constant in their gradient, and a combination of samples.

    The bias is the weight of one more feature, which is 1 for every sample. A step moves the numbers by which samples
    enter, a row per sample; one product, with the products of all pairs of samples, gives logits. All weights must
    decay alike.
    """

    def __init__(self, training: Training, inputs: Tensor):
        self.inputs = inputs
        self.descent = training.descent
        self.weight, weight_hold = training.weight()
        self.bias, bias_hold = training.bias()
        assert isinstance(weight_hold.decay, float)
        self.decay = weight_hold.decay
        self.weight_constant = weight_hold.constant
        self.bias_constant = bias_hold.constant
        self.course = Course()
        self.table = products_of_pairs(inputs)
        self.shares = inputs.new_zeros(len(inputs), len(self.bias))  # (samples, rows of the head)
        self.momentum = torch.zeros_like(self.shares)
        self.start_logits = torch.addmm(self.bias, inputs, self.weight.T)
        self.constant_logits = None
        if self.weight_constant is not None and self.bias_constant is not None:
            self.constant_logits = torch.addmm(self.bias_constant, inputs, self.weight_constant.T)

    def gathered(self, rows: Tensor, sizes: Sequence[int]) -> Iterator[tuple[Tensor | None, ...]]:
        """See :class:`Space`."""
        tables = (self.table, self.start_logits, self.constant_logits)
        columns = [
            table.index_select(0, rows).split_with_sizes(list(sizes)) if table is not None else None for table in tables
        ]
        absent = [None] * len(sizes)
        return zip(*(column or absent for column in columns), strict=True)

    def logits(self, inputs: tuple[Tensor, Tensor, Tensor | None]) -> Tensor:
        """See :class:`Space`."""
        products, start, constant = inputs
        logits = torch.addmm(start, products, self.shares, beta=self.course.start)
        return logits if constant is None else logits.add_(constant, alpha=self.course.constant)

    def step(self, rows: Tensor, inputs: object, slope: Tensor) -> None:
        """See :class:`Space`."""
        self.momentum.mul_(self.descent.momentum).index_add_(0, rows, slope)
        if self.decay:
            self.momentum.add_(self.shares, alpha=self.decay)
        self.shares.sub_(self.momentum, alpha=self.descent.lr)
        self.course.step(self.decay, self.descent)

    def weights(self) -> tuple[Tensor, Tensor]:
        """See :class:`Space`."""
        weight = self.course.of(self.weight, self.weight_constant).addmm_(self.shares.T, self.inputs)
        bias = self.course.of(self.bias, self.bias_constant).add_(self.shares.sum(dim=0))
        return weight, bias
