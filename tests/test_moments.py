"""Moments of whole numbers: equal to the bit for every order, splitting, batch size, way and number of threads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from fcl_bench import Backbone, Moments, UserError, arithmetic_of, linalg
from fcl_bench import moments as module
from fcl_bench.backbone import InputSpec
from fcl_bench.client_data import ClientData
from fcl_bench.moments import InWholeNumbers, grid_for
from fcl_bench.whole_numbers import Grid

FEATURES = 140
CLASSES = 4
INPUTS = 8 * torch.rand(60, FEATURES, generator=torch.Generator().manual_seed(0)) - 1
LABELS = torch.arange(60) % CLASSES


def moments_of(positions: torch.Tensor, arithmetic: InWholeNumbers) -> Moments:
    return arithmetic.moments(ClientData(INPUTS, positions, LABELS[positions]), FEATURES, CLASSES)


def assert_equal(one: Moments, other: Moments) -> None:
    assert torch.equal(one.gram.long(), other.gram.long())
    assert torch.equal(one.cross.long(), other.cross.long())
    assert torch.equal(one.counts, other.counts)


@given(some.data())
@settings(deadline=None, max_examples=40)
def test_order_splitting_batches_ways_and_threads_do_not_matter(data: some.DataObject) -> None:
    bits = data.draw(some.sampled_from([2, 5, 7, 8, 13, 17]))
    grid = Grid(bits, 6.0)  # some features are clipped
    order = torch.tensor(data.draw(some.permutations(range(60))))
    cuts = sorted(data.draw(some.sets(some.integers(1, 59), max_size=6)))
    way = data.draw(
        some.sampled_from([None, "float64", *(["int8"] if bits <= 14 else []), *(["float32"] if bits <= 8 else [])])
    )
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS", data.draw(some.integers(1, 70)))
        torch.set_num_threads(data.draw(some.sampled_from([1, 2])))
        try:
            arithmetic = InWholeNumbers(grid, way)
            parts = order.tensor_split(torch.tensor(cuts, dtype=torch.int64))
            start = arithmetic.nothing(FEATURES).with_classes(CLASSES)
            sums = arithmetic.total(start, (moments_of(part, arithmetic) for part in parts))
            weights = linalg.ridge(*arithmetic.system(sums), 1.0)
        finally:
            torch.set_num_threads(threads)
    expected = moments_of(torch.arange(60), InWholeNumbers(grid, "float64"))
    assert_equal(sums, expected)
    assert torch.equal(weights, linalg.ridge(*arithmetic.system(expected), 1.0))


def test_they_are_numpys_for_rounded_features() -> None:
    grid = Grid(7, 6.0)
    rounded = np.clip(np.rint(INPUTS.numpy() * np.float32(127 / 6)), -127, 127).astype(float)
    targets = np.eye(CLASSES)[LABELS]
    gram, cross = InWholeNumbers(grid).system(moments_of(torch.arange(60), InWholeNumbers(grid)))
    np.testing.assert_allclose(gram, rounded.T @ rounded * (6 / 127) ** 2, rtol=1e-12)
    np.testing.assert_allclose(cross, rounded.T @ targets * (6 / 127), rtol=1e-12)
    counts = moments_of(torch.arange(60), InWholeNumbers(grid)).counts.tolist()
    assert counts == [60, int((np.abs(INPUTS.numpy()) > 6 * 127.5 / 127).sum())]


def test_sums_grow_into_wider_types() -> None:
    """Each has 100 equal samples of the largest number: 133,144 of them are the most that int32 holds."""
    arithmetic = InWholeNumbers(Grid(7, 1.0))
    whole = torch.tensor([100 * 127**2], dtype=torch.int32)
    part = Moments(whole, torch.tensor([[100 * 127]], dtype=torch.int16), torch.tensor([100, 0]))
    sums = arithmetic.total(arithmetic.nothing(1).with_classes(1), 1400 * [part])
    assert sums.gram.tolist() == [1400 * 100 * 127**2]
    assert sums.gram.dtype == torch.int64
    assert sums.cross.tolist() == [[1400 * 100 * 127]]


def test_too_many_samples_are_refused_before_they_are_added() -> None:
    arithmetic = InWholeNumbers(Grid(17, 1.0))
    half = Moments(torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64), torch.tensor([300_000, 0]))
    with pytest.raises(UserError, match=r"600,000 samples of 17 bits may exceed 2\^53.*method.bits=16"):
        arithmetic.total(half, [half])


@pytest.mark.parametrize(
    ("high", "bits", "expected"), [(6.0, None, (7, 6.0)), (None, None, (16, 64.0)), (6.0, 9, (9, 6.0))]
)
def test_the_grid_follows_the_backbone(high: float | None, bits: int | None, expected: tuple[int, float]) -> None:
    backbone = Backbone(5, inputs=InputSpec((5,), high=high))
    grid = grid_for(backbone, bits)
    assert (grid.bits, grid.bound) == expected
    assert arithmetic_of("integer", bits, backbone) == InWholeNumbers(grid)
