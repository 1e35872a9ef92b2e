"""What the leaderboard says about seeds, against numpy, scipy and counting by hand."""

import numpy as np
import pytest
from scipy import stats

from fcl_bench.leaderboard.statistics import compared, holm, interval, paired_p, score


@pytest.mark.parametrize("number", [2, 3, 7])
def test_mean_and_deviation_are_those_of_numpy(number: int) -> None:
    values = np.random.default_rng(0).uniform(0, 100, number).tolist()
    found = score(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.deviation == pytest.approx(np.std(values, ddof=1))
    assert found.interval == interval(values)


@pytest.mark.parametrize("number", [2, 3, 5, 20])
def test_the_interval_is_that_of_scipy(number: int) -> None:
    values = np.random.default_rng(number).normal(50, 5, number)
    ends = stats.t.interval(0.95, number - 1, loc=np.mean(values), scale=stats.sem(values))
    assert interval(values.tolist()) == pytest.approx(ends, rel=1e-9)


def test_the_interval_of_three_seeds_holds_the_mean_in_95_of_100_cases() -> None:
    draws = np.random.default_rng(0).normal(50, 5, (4000, 3))
    inside = [low <= 50 <= high for low, high in map(interval, draws.tolist())]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)  # three and a half standard deviations


def test_equal_values_leave_no_room() -> None:
    assert interval([63.26, 63.26, 63.26]) == pytest.approx((63.26, 63.26))


@pytest.mark.parametrize("number", [2, 3, 10])
def test_the_comparison_is_scipy_s_paired_test(number: int) -> None:
    generator = np.random.default_rng(number)
    ours, best = generator.normal(50, 1, number), generator.normal(51, 1, number)
    found = compared(dict(zip("abcdefghij", ours, strict=False)), dict(zip("abcdefghij", best, strict=False)))
    wanted = stats.ttest_rel(ours, best)
    assert found.p == pytest.approx(wanted.pvalue, rel=1e-9)
    assert (found.pairs, found.difference) == (number, pytest.approx(np.mean(ours - best)))


def test_only_draws_that_both_have_seen_are_pairs() -> None:
    ours = {"1": 10.0, "2": 20.0, "3": None, "4": 30.0}
    best = {"1": 11.0, "2": 23.0, "3": 5.0, "5": 90.0}
    found = compared(ours, best)
    assert (found.pairs, found.difference) == (2, -2.0)
    assert found.p == pytest.approx(stats.ttest_rel([10, 20], [11, 23]).pvalue)
    assert compared({"1": 1.0}, {"2": 2.0}).pairs == 0


def test_what_a_test_cannot_say() -> None:
    assert paired_p([3.0]) is None
    assert paired_p([0.0, 1e-14, 0.0]) == 1.0  # equal but for rounding
    assert paired_p([-2.0, -2.0]) == 0.0  # always the same difference


def test_holm_multiplies_the_smallest_by_their_number() -> None:
    assert holm([0.2, 0.001, 0.02, 0.015]) == pytest.approx([0.2, 0.004, 0.045, 0.045])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
