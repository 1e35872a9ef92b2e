import pytest
import torch

from fcl_bench.linalg import (
    PANEL,
    add_gram,
    diagonal,
    empty_triangle,
    solve_regular,
    solve_singular,
    triangle_of,
    whole,
)

RANDOM = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 5, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL + 7])
def test_a_triangle_adds_up_to_the_whole_matrix(size):
    one, two = randn(20, size), randn(30, size)
    triangle = empty_triangle(size)
    add_gram(triangle, one)
    add_gram(triangle, two)
    expected = one.T @ one + two.T @ two
    torch.testing.assert_close(whole(triangle, size), expected)
    torch.testing.assert_close(diagonal(triangle, size), expected.diagonal())
    torch.testing.assert_close(triangle_of(expected), triangle)


@pytest.mark.parametrize(
    ("size", "numbers"),
    [
        (5, 25),  # one panel: the whole matrix
        (128, 128 * 128),
        (129, 129 * 128 + 1),
        (1280, sum(128 * rows for rows in range(128, 1281, 128))),  # 55 blocks of 128 x 128 instead of 100
    ],
)
def test_a_triangle_is_little_more_than_half_of_a_large_matrix(size, numbers):
    assert len(empty_triangle(size)) == numbers


def test_a_regular_system_is_solved():
    rows, right = randn(9, 4), randn(4, 3)
    matrix = rows.T @ rows
    torch.testing.assert_close(solve_regular(matrix, right), matrix.inverse() @ right)


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e8])
def test_a_singular_system_is_named_and_has_a_solution_of_minimum_norm(scale):
    rows = scale * randn(2, 4)  # rank 2
    matrix = rows.T @ rows
    right = matrix @ randn(4, 3)
    assert solve_regular(matrix, right) is None
    expected = torch.linalg.lstsq(matrix, right, driver="gelsd", rcond=1e-10).solution
    torch.testing.assert_close(solve_singular(matrix, right), expected, rtol=1e-6, atol=1e-8)


def test_a_matrix_that_is_not_finite_is_not_regular():
    assert solve_regular(torch.full((2, 2), torch.nan, dtype=torch.float64), randn(2, 1)) is None
