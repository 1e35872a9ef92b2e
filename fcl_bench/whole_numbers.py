"""Features as whole numbers, and sums of products of them: exact, so neither order nor splitting of samples matters.

A feature x becomes rint(x / step), on a grid that is fixed before any data are seen. Products of such numbers are
computed in the quickest way that is exact; every way gives the same bits:

``int8``     products of 7-bit parts into int32, on CPUs with VNNI instructions
``float32``  up to 8 bits, in blocks of rows whose sums stay below 2^24
``float64``  in blocks of rows whose sums stay below 2^53
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fcl_bench.errors import UserError
from fcl_bench.linalg import PANEL, diagonal, empty_triangle, panels, unfilled_triangle

Way = Literal["int8", "float32", "float64"]

PART_BITS = 7  # of a part that int8 holds
EXACT = 2**53  # up to here float64 holds every whole number
BLOCKS: dict[Way, int] = {"int8": 2**31 - 1, "float32": 2**24, "float64": EXACT}  # the largest sum over a block
MOST_BITS: dict[Way, int] = {"int8": 2 * PART_BITS, "float32": 8, "float64": 17}
TYPES = (torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class Grid:
    """Whole numbers of ``bits`` bits and a sign for features between ``-bound`` and ``bound``."""

    bits: int
    bound: float

    @property
    def largest(self) -> int:
        """The largest number."""
        return 2**self.bits - 1

    @property
    def step(self) -> float:
        """The distance of two numbers, in the unit of features."""
        return self.bound / self.largest

    @property
    def resolution(self) -> float:
        """The largest error of a rounded feature within the bound: half a step, and what float32 makes of x / step."""
        return self.step * (0.5 + self.largest * 2**-23)

    @property
    def most_samples(self) -> int:
        """Of so many samples, sums of products are exact in float64 too."""
        return EXACT // self.largest**2

    def rounded(self, features: Tensor) -> tuple[Tensor, int]:
        """The numbers, and how many features lay beyond the bound and were moved to it."""
        numbers = (features * (1 / self.step)).round_()
        clipped = 0
        low, high = (float(end) for end in numbers.aminmax()) if numbers.numel() else (0.0, 0.0)
        if not -self.largest <= low <= high <= self.largest:  # also where one is no number
            if not features.isfinite().all():
                raise UserError("A feature is not a finite number: the sample, or the backbone, must be damaged.")
            clipped = int((numbers.abs() > self.largest).sum())
            numbers = numbers.clamp_(-self.largest, self.largest)
        return numbers.to(torch.int8 if self.bits <= PART_BITS else torch.int32), clipped

    def check(self, samples: int) -> None:
        """Refuse so many samples if their sums might not be exact."""
        if samples <= self.most_samples:
            return
        bits = next(bits for bits in range(self.bits, 0, -1) if samples * (2**bits - 1) ** 2 <= EXACT)
        raise UserError(
            f"Sums over {samples:,} samples of {self.bits} bits may exceed 2^53, beyond which they are not exact: "
            f"set method.bits={bits} or fewer."
        )


def gram(rows: Tensor, bits: int, way: Way | None = None) -> Tensor:
    """The triangle of rows^T rows, for rows (n, size) of numbers that :class:`Grid` has made."""
    chosen = way or quickest_way(bits)
    at_once = _rows_at_once(chosen, bits)
    if _in_one_go(rows, chosen, at_once):
        return _gram_in_one_go(rows)
    triangle = empty_triangle(rows.shape[1], type_for(len(rows), (2**bits - 1) ** 2))
    for block in rows.split(at_once):
        parts = list(_parts(block, chosen))
        for start, panel in panels(triangle, rows.shape[1]):
            panel_of_columns = panel.T  # (columns, size - start), contiguous
            for (one_weight, one), (other_weight, other) in product(parts, parts):
                products = _products(one[:, start : start + PANEL], other[:, start:])
                panel_of_columns.add_(products, alpha=one_weight * other_weight)
    return triangle


def sums_by_class(rows: Tensor, labels: Tensor, classes: int, bits: int, way: Way | None = None) -> Tensor:
    """Y^T rows, (classes, size), for one-hot labels Y."""
    chosen = way or quickest_way(bits)
    at_once = _rows_at_once(chosen, bits)
    if _in_one_go(rows, chosen, at_once):
        return torch._int_mm(one_hot(labels, classes).to(torch.int8).T, rows)
    sums = torch.zeros(classes, rows.shape[1], dtype=torch.int64)
    for block, block_labels in zip(rows.split(at_once), labels.split(at_once), strict=True):
        targets = one_hot(block_labels, classes)
        for weight, part in _parts(block, chosen):
            sums.add_(_products(targets.to(part.dtype), part), alpha=weight)
    return sums


def quickest_way(bits: int) -> Way:
    """The quickest way for so many bits on this processor."""
    if bits <= MOST_BITS["int8"] and torch.cpu._is_vnni_supported():
        return "int8"
    return "float32" if bits <= MOST_BITS["float32"] else "float64"


def type_for(samples: int, largest: int) -> torch.dtype:
    """A type that holds every sum over so many samples of numbers up to ``largest``, with room for the most of them."""
    return torch.int32 if samples * largest < 2**31 else torch.int64


def smallest(numbers: Tensor) -> Tensor:
    """The same whole numbers in the smallest integer type that holds them.

    >>> smallest(torch.tensor([-128, 127])).dtype, smallest(torch.tensor([128])).dtype
    (torch.int8, torch.int16)
    """
    if numbers.numel() == 0:
        return numbers.to(TYPES[0])
    low, high = (int(end) for end in numbers.aminmax())
    return numbers.to(_smallest_type(low, high))


def smallest_triangle(triangle: Tensor, size: int) -> Tensor:
    """The same triangle of a Gram matrix in the smallest integer type, which its diagonal tells: it has the largest."""
    largest = int(diagonal(triangle, size).max())
    return triangle.to(_smallest_type(-largest, largest))


def _smallest_type(low: int, high: int) -> torch.dtype:
    fitting = (kind for kind in TYPES if torch.iinfo(kind).min <= low and high <= torch.iinfo(kind).max)
    return next(fitting)


def _in_one_go(rows: Tensor, way: Way, at_once: int) -> bool:
    """Whether one product has all the sums: there are no parts and no blocks to be added."""
    return way == "int8" and rows.dtype == torch.int8 and len(rows) <= at_once


def _gram_in_one_go(rows: Tensor) -> Tensor:
    """The triangle, written where it belongs."""
    triangle = unfilled_triangle(rows.shape[1], torch.int32)
    for columns, (start, panel) in zip(rows.T.split(PANEL), panels(triangle, rows.shape[1]), strict=True):
        torch._int_mm(columns, rows[:, start:], out=panel.T)
    return triangle


def _rows_at_once(way: Way, bits: int) -> int:
    largest = 2**PART_BITS if way == "int8" else 2**bits - 1
    return BLOCKS[way] // largest**2


def _parts(rows: Tensor, way: Way) -> Iterator[tuple[int, Tensor]]:
    """Tensors that can be multiplied in this way, with weights: their weighted sum is ``rows``."""
    if way != "int8":
        yield 1, rows.to(torch.float32 if way == "float32" else torch.float64)
    elif rows.dtype == torch.int8:
        yield 1, rows
    else:
        yield 2**PART_BITS, (rows >> PART_BITS).to(torch.int8)
        yield 1, (rows & (2**PART_BITS - 1)).to(torch.int8)


def _products(left: Tensor, right: Tensor) -> Tensor:
    """left^T right, as whole numbers."""
    if left.dtype == torch.int8:
        return torch._int_mm(left.T, right)
    return (left.T @ right).long()
