"""What the leaderboard says about seeds, against numpy, scipy and counting by hand."""

from itertools import product

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


def test_the_interval_of_three_seeds_comes_from_all_27_samples() -> None:
    """Sorted, the means have steps at 1/27, 4/27, ...: 2.5 % lies below the first step, 97.5 % above the last."""
    means = sorted((a + b + c) / 3 for a, b, c in product((50.0, 52.0, 57.0), repeat=3))
    low, high = 0.025 * 26, 0.975 * 26  # positions between which the quantiles are interpolated
    assert interval([50.0, 52.0, 57.0]) == pytest.approx(
        [means[0] + low * (means[1] - means[0]), means[25] + (high - 25) * (means[26] - means[25])]
    )


@pytest.mark.parametrize("number", [4, 6, 7, 20])
def test_the_interval_is_that_of_scipy(number: int) -> None:
    """By so many random samples, scipy's ends are uncertain by about 1 % of the width."""
    values = np.random.default_rng(number).normal(50, 5, number)
    ends = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=100_000, rng=0).confidence_interval
    assert interval(values.tolist()) == pytest.approx(ends, abs=0.03 * (ends.high - ends.low))


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
