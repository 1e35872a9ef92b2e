"""Symmetric matrices: half of one in little memory, and systems in float64 that may be singular.

The lower triangle of a (size, size) matrix is kept as one flat tensor of panels: each has up to ``PANEL`` columns, from
their block on the diagonal down. So F^T F costs little more than half of the time and of the traffic.
"""

import warnings
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from fcl_bench.threads import one_thread

EPS = torch.finfo(torch.float64).eps
PANEL = 128


def numbers_in_triangle(size: int) -> int:
    """How many numbers are kept of a (size, size) matrix."""
    return sum(_lengths(size))


def empty_triangle(size: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """The triangle of a matrix of zeros."""
    return torch.zeros(numbers_in_triangle(size), dtype=dtype)


def unfilled_triangle(size: int, dtype: torch.dtype) -> Tensor:
    """A triangle whose numbers are yet to be written."""
    return torch.empty(numbers_in_triangle(size), dtype=dtype)


def add_gram(triangle: Tensor, rows: Tensor) -> None:
    """Add the triangle of ``rows.T @ rows`` in place; rows (n, size)."""
    for start, panel in panels(triangle, rows.shape[1]):
        panel.addmm_(rows[:, start:].T, rows[:, start : start + PANEL])


def whole(triangle: Tensor, size: int, dtype: torch.dtype | None = None) -> Tensor:
    """The symmetric matrix behind a triangle, of the same type unless another one is given.

    >>> triangle = empty_triangle(2)
    >>> add_gram(triangle, torch.tensor([[1.0, 2.0], [0.0, 3.0]], dtype=torch.float64))
    >>> whole(triangle, 2).tolist()
    [[1.0, 2.0], [2.0, 13.0]]
    """
    matrix = triangle.new_empty(size, size, dtype=dtype)
    for start, panel in panels(triangle, size):
        matrix[start:, start : start + PANEL] = panel
        matrix[start : start + PANEL, start:] = panel.T
    return matrix


def triangle_of(matrix: Tensor) -> Tensor:
    """The triangle of a symmetric matrix.

    >>> matrix = torch.tensor([[1.0, 2.0], [2.0, 13.0]])
    >>> whole(triangle_of(matrix), 2).tolist()
    [[1.0, 2.0], [2.0, 13.0]]
    """
    triangle = unfilled_triangle(len(matrix), matrix.dtype)
    for start, panel in panels(triangle, len(matrix)):
        panel.copy_(matrix[start:, start : start + PANEL])
    return triangle


def panels(triangle: Tensor, size: int) -> Iterator[tuple[int, Tensor]]:
    """Views on the triangle: the first column of each panel, and the panel (size - first column, columns).

    In memory column after column: tall products are a quarter faster into such a panel.
    """
    for number, flat in enumerate(triangle.split(_lengths(size))):
        start = number * PANEL
        yield start, flat.view(-1, size - start).T


def diagonal(triangle: Tensor, size: int) -> Tensor:
    """The numbers on the diagonal, (size,)."""
    return triangle[_diagonal_places(size)]


@cache
def _lengths(size: int) -> list[int]:
    """How many numbers each panel has."""
    return [(size - start) * min(PANEL, size - start) for start in range(0, size, PANEL)]


@cache
def _diagonal_places(size: int) -> Tensor:
    numbers = torch.arange(numbers_in_triangle(size))
    return torch.cat([panel.diagonal() for _, panel in panels(numbers, size)])


def solve_regular(matrix: Tensor, right: Tensor) -> Tensor | None:
    """The X of matrix X = right for a symmetric, positive definite matrix; None where float64 sees it as singular."""
    factor = torch.linalg.cholesky_ex(matrix).L
    pivots = factor.diagonal()
    if not torch.isfinite(pivots).all():
        return None
    if pivots.min() <= pivots.max() * (EPS * len(factor)) ** 0.5:
        return None
    return torch.cholesky_solve(right, factor)


def solve_singular(matrix: Tensor, right: Tensor) -> Tensor:
    """Of all X that come nearest to matrix X = right, for a symmetric matrix, the one of minimum norm."""
    return torch.linalg.pinv(matrix, rtol=EPS * len(matrix), hermitian=True) @ right


def without_negative(matrix: Tensor) -> Tensor:
    """The nearest matrix to a symmetric one that has no negative eigenvalue.

    >>> without_negative(torch.tensor([[3.0, 0.0], [0.0, -1.0]]))
    tensor([[3., 0.],
            [0., 0.]])
    """
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp(min=0)) @ vectors.T


def ridge(gram: Tensor, cross: Tensor, gamma: float) -> Tensor:
    """The W of (gram + gamma I) W = cross, (features, classes); of minimum norm where that is singular.

    ``gram`` becomes gram + gamma I: there is no second matrix of its size besides its factor. Equal columns have equal
    weights to the bit, whatever their order: they are solved in an order of their own, on one thread.
    """
    gram.diagonal().add_(gamma)
    order = _by_content(cross)
    with one_thread():
        weights = solve_regular(gram, cross[:, order])
        if weights is None:
            warnings.warn(
                f"With gamma={gamma:g} the Gram matrix of all data so far is singular: taking the minimum-norm "
                "solution.",
                stacklevel=2,
            )
            weights = solve_singular(gram, cross[:, order])
    return weights[:, order.argsort()]


def _by_content(matrix: Tensor) -> Tensor:
    """The places of the columns when these are sorted by the bytes of their numbers."""
    columns = [column.tobytes() for column in matrix.T.contiguous().numpy()]
    return torch.tensor(sorted(range(len(columns)), key=columns.__getitem__), dtype=torch.int64)
