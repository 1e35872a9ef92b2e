"""Whole numbers against numpy's integers, which have no limit worth speaking of here."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from fcl_bench import UserError
from fcl_bench.linalg import whole
from fcl_bench.whole_numbers import BLOCKS, MOST_BITS, Grid, gram, smallest, sums_by_class, type_for

WAYS = ("int8", "float32", "float64")


def numbers(rows: int, size: int, bits: int, seed: int = 0) -> torch.Tensor:
    """Random numbers on a grid, its two ends among them."""
    largest = 2**bits - 1
    random = np.random.default_rng(seed).integers(-largest, largest, (rows, size), endpoint=True)
    random.flat[:2] = largest, -largest
    return torch.from_numpy(random).to(torch.int8 if bits <= 7 else torch.int32)


def ways(bits: int) -> list[str]:
    return [way for way in WAYS if bits <= MOST_BITS[way]]


@pytest.mark.parametrize("bits", [2, 7, 8, 9, 12, 14, 15, 17])
@pytest.mark.parametrize("rows", [1, 5, 2000])
def test_every_way_gives_the_same_bits_which_are_numpys(bits: int, rows: int) -> None:
    drawn = numbers(rows, 130, bits)
    exact = drawn.numpy().astype(np.int64)
    labels = torch.arange(rows) % 3
    by_class = np.stack([exact[labels.numpy() == label].sum(axis=0) for label in range(4)])
    for way in ways(bits):
        assert np.array_equal(whole(gram(drawn, bits, way), 130).numpy(), exact.T @ exact), way
        assert np.array_equal(sums_by_class(drawn, labels, 4, bits, way).numpy(), by_class), way


@pytest.mark.parametrize("way", WAYS)
def test_blocks_end_before_a_sum_could_be_inexact(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all numbers at their largest, one row more in a block would lose the last bit in float32."""
    bits = MOST_BITS[way]
    rows = BLOCKS[way] // (2**bits - 1) ** 2 if way == "float32" else 300
    drawn = torch.full((2 * rows + 1, 3), 2**bits - 1, dtype=torch.int32)
    expected = len(drawn) * (2**bits - 1) ** 2
    assert whole(gram(drawn, bits, way), 3).unique().tolist() == [expected]
    if way != "float32":
        monkeypatch.setitem(BLOCKS, way, 7 * 2**14 if way == "int8" else 7 * (2**bits - 1) ** 2)
        assert whole(gram(drawn, bits, way), 3).unique().tolist() == [expected]


@given(some.integers(2, 17), some.floats(0.1, 100), some.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_rounding_is_to_the_nearest_number_of_the_grid(bits: int, bound: float, seed: int) -> None:
    grid = Grid(bits, bound)
    features = torch.from_numpy(np.random.default_rng(seed).uniform(-bound, bound, (4, 5))).float()
    rounded, clipped = grid.rounded(features)
    assert clipped == 0
    error = np.abs(rounded.numpy() * grid.step - features.double().numpy())
    assert error.max() <= grid.step * (0.5 + 2**bits * 1e-7)  # of float32


def test_features_beyond_the_bound_are_clipped_and_counted() -> None:
    rounded, clipped = Grid(7, 6.0).rounded(torch.tensor([[6.0, -6.0, 7.0, -100.0, torch.finfo().max]]))
    assert rounded.tolist() == [[127, -127, 127, -127, 127]]
    assert clipped == 3


@pytest.mark.parametrize("damage", [torch.nan, torch.inf])
def test_what_is_no_number_is_refused(damage: float) -> None:
    with pytest.raises(UserError, match="A feature is not a finite number: the sample, or the backbone"):
        Grid(7, 6.0).rounded(torch.tensor([[1.0, damage]]))


def test_too_many_samples_are_refused_with_the_bits_that_would_do() -> None:
    grid = Grid(17, 64.0)
    grid.check(grid.most_samples)
    with pytest.raises(UserError, match=r"524,297 samples of 17 bits may exceed 2\^53.*set method.bits=16 or fewer"):
        grid.check(grid.most_samples + 1)


@pytest.mark.parametrize("bits", [7, 12, 17])
def test_the_types_hold_the_largest_sum(bits: int) -> None:
    for samples in (1, 127, 128, 133_144, 133_145):
        largest = (2**bits - 1) ** 2
        assert samples * largest <= torch.iinfo(type_for(samples, largest)).max


@pytest.mark.parametrize(
    ("value", "kind"), [(127, 8), (-128, 8), (128, 16), (-32769, 32), (2**31 - 1, 32), (2**31, 64)]
)
def test_the_smallest_type_is_found(value: int, kind: int) -> None:
    found = smallest(torch.tensor([0, value]))
    assert found.dtype == getattr(torch, f"int{kind}")
    assert found.tolist() == [0, value]
