"""Two answers side by side, against numbers worked out by hand."""

import pytest
import torch

from fcl_bench.exact.certificate import Part, worst
from fcl_bench.exact.comparison import compared, hashes_of, sentence


def answer(cross: list[int], weights: list[float], predictions: list[int]) -> dict[str, dict[str, torch.Tensor]]:
    return {
        "statistics": {"cross": torch.tensor(cross)},
        "weights": {"weights": torch.tensor(weights, dtype=torch.float64)},
        "predictions": {"predictions": torch.tensor(predictions)},
    }


ONE = answer([3, 4], [3.0, 4.0], [1, 2, 3])


def test_relative_differences_are_in_the_frobenius_norm_and_predictions_are_counted() -> None:
    other = answer([3, 5], [3.0, 4.0 + 5e-3], [1, 0, 0])
    parts = compared(hashes_of(other), other, ONE)
    assert parts["statistics"].difference == pytest.approx(1 / 5)
    assert parts["weights"].difference == pytest.approx(1e-3)
    assert parts["predictions"].difference == 2
    assert sentence(parts, "one place", tests=3) == (
        "different from those of one place: statistics by 2.0e-01, weights by 1.0e-03, 2 of 3 predictions"
    )


def test_only_floating_point_numbers_may_be_nearly_equal() -> None:
    many = 10**9
    whole = {"statistics": {"cross": torch.tensor([many])}}
    nearly = {"statistics": {"cross": torch.tensor([many + 1])}}
    assert worst(compared(hashes_of(nearly), nearly, whole)) == "differs"
    rounded = {"statistics": {"cross": torch.tensor([1.0 * many], dtype=torch.float64)}}
    close = {"statistics": {"cross": torch.tensor([1.0 * many + 1], dtype=torch.float64)}}
    assert worst(compared(hashes_of(close), close, rounded)) == "within"


def test_without_numbers_of_these_hashes_nothing_is_told_of_the_distance() -> None:
    recorded = hashes_of(answer([3, 5], [0.0, 0.0], [1]))
    for found in ({}, ONE):
        parts = compared(recorded, found, ONE)
        assert {part.difference for part in parts.values()} == {None}
        assert worst(parts) == "differs"


def test_other_shapes_are_different_whatever_their_numbers() -> None:
    other = answer([3, 4, 0], [3.0, 4.0], [1, 2, 3])
    parts = compared(hashes_of(other), other, ONE)
    assert (parts["statistics"].verdict, parts["statistics"].difference) == ("differs", None)


def test_a_verdict_that_is_not_that_of_the_hashes_is_refused() -> None:
    with pytest.raises(ValueError, match="the verdict is not that of the hashes"):
        Part(verdict="equal", recorded="a", expected="b", difference=0.0)
