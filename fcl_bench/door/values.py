"""Rules about the numbers of a part of a reply whose form is right; they are checked after all rules about form.

``complaint`` says what is wrong, as the end of a sentence that begins with the part; None if nothing is.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fcl_bench.door.facts import Facts
from fcl_bench.linalg import diagonal, panels

ROUNDING = 1e-9  # of a matrix of sums of products, relative to its diagonal
ROOM = 1 + 1e-6  # for rounding in float32


@dataclass(frozen=True)
class Range:
    """Numbers from ``at_least`` to ``at_most``."""

    at_least: float | str | None = None
    at_most: float | str | None = None

    def complaint(self, value: Any, facts: Facts) -> str | None:
        """What is wrong."""
        if isinstance(value, Tensor) and value.numel() == 0:
            return None
        low, high = ends(value)
        if self.at_least is not None and low < facts.number(self.at_least):
            return f"has the number {low:g}, expected at least {facts.number(self.at_least):g}"
        if self.at_most is not None and high > facts.number(self.at_most):
            return f"has the number {high:g}, expected at most {facts.number(self.at_most):g}"
        return None


@dataclass(frozen=True)
class Within:
    """Numbers no farther from zero than this."""

    bound: float | str

    def complaint(self, value: Any, facts: Facts) -> str | None:
        """What is wrong."""
        low, high = ends(value)
        bound = facts.number(self.bound) * ROOM
        if -bound <= low and high <= bound:
            return None
        return f"has the number {max(high, -low):g}, expected at most {bound:g} in size"


@dataclass(frozen=True)
class Equal:
    """One number, which the harness knows."""

    wanted: float | str

    def complaint(self, value: Any, facts: Facts) -> str | None:
        """What is wrong."""
        wanted = facts.number(self.wanted)
        return None if value == wanted else f"is {value}, expected {wanted:g}"


@dataclass(frozen=True)
class Total:
    """Numbers whose sum is at most this."""

    at_most: float | str

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        total = float(value.sum())
        most = facts.number(self.at_most)
        return None if total <= most else f"adds up to {total:g}, expected at most {most:g}"


class Each:
    """A rule for each number of a vector, in their order; a vector may also be empty."""

    def __init__(self, *rules: Range | Within | Equal):
        self.rules = rules

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        for rule, number in zip(self.rules, value.tolist(), strict=False):
            found = rule.complaint(number, facts)
            if found:
                return found
        return None


@dataclass(frozen=True)
class Labels:
    """Numbers of classes that the client has declared in this task; ``distinct`` ones are ascending."""

    distinct: bool = False

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        own = facts.declared(earlier=False)
        if not torch.isin(value, own).all():
            return f"has the class {int(value[~torch.isin(value, own)][0])}, which the client has not registered"
        if self.distinct and not (value.diff() > 0).all():
            return "has classes that are not distinct and ascending"
        return None


@dataclass(frozen=True)
class ByClass:
    """Rows by class number; those of classes that the client has never declared are zero."""

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        own = facts.declared(earlier=True)
        foreign = torch.ones(len(value), dtype=torch.bool)
        foreign[own[own < len(value)]] = False
        rows = value[foreign].flatten(1) if value.dim() > 1 else value[foreign][:, None]
        guilty = rows.any(dim=1)
        if not guilty.any():
            return None
        label = int(foreign.nonzero().flatten()[guilty][0])
        return f"tells of the class {label}, which the client has not registered"


@dataclass(frozen=True)
class Gram:
    """F^T F of some rows F, whole or as a triangle; ``largest`` is what no number on its diagonal exceeds.

    No number is larger than the two on the diagonal allow: |g_ij| <= sqrt(g_ii g_jj). That is necessary, and it takes
    two passes over the matrix, but it does not prove that all eigenvalues are positive. ``definite`` proves it by a
    Cholesky factor, in size^3 / 3 steps.
    """

    size: str
    largest: float | str | None = None
    definite: bool = False

    def complaint(self, value: Tensor, facts: Facts) -> str | None:
        """What is wrong."""
        size = int(facts.number(self.size))
        squares = value.diagonal() if value.dim() == 2 else diagonal(value, size)
        sums_of_squares = Range(0, self.largest).complaint(squares, facts)
        if sums_of_squares:
            return f"{sums_of_squares}, on its diagonal"
        if value.dim() == 2 and not torch.equal(value, value.T):
            return "is not symmetric"
        if self.definite:
            return None if is_definite(value) else "is not positive definite"
        return None if is_bounded_by_diagonal(value, squares, size) else "is not positive semi-definite"


Values = Range | Within | Equal | Total | Each | Labels | ByClass | Gram


def ends(value: Any) -> tuple[float, float]:
    """The smallest and the largest number; 0 where there is none.

    >>> ends(torch.tensor([3, -1]))
    (-1, 3)
    """
    if isinstance(value, dict):
        both = [ends(each) for each in value.values()] or [(0, 0)]
        return min(low for low, _ in both), max(high for _, high in both)
    if not isinstance(value, Tensor):
        return value, value
    if value.numel() == 0:
        return 0, 0
    low, high = value.aminmax()
    return low.item(), high.item()


def is_definite(matrix: Tensor) -> bool:
    """Whether a symmetric matrix is positive definite, up to rounding."""
    if len(matrix) == 0:
        return True
    lifted = matrix.clone()
    lifted.diagonal().add_(ROUNDING * float(matrix.diagonal().max()))
    return int(torch.linalg.cholesky_ex(lifted).info) == 0


def is_bounded_by_diagonal(value: Tensor, squares: Tensor, size: int) -> bool:
    """Whether |g_ij| <= sqrt(g_ii g_jj) everywhere, up to rounding.

    >>> matrix = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    >>> is_bounded_by_diagonal(matrix, matrix.diagonal(), 2)
    False
    """
    kind = torch.float64 if squares.is_floating_point() else torch.float32  # the quicker one, where it cannot overflow
    roots = squares.to(kind).sqrt() * ROOM
    blocks = panels(value, size) if value.dim() == 1 else [(0, value)]
    for start, block in blocks:
        most = torch.outer(roots[start : start + block.shape[1]], roots[start:]).T
        if (block.to(kind).abs() > most).any():
            return False
    return True
