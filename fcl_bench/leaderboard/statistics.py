"""What a few seeds say: mean, deviation, interval, and whether two methods differ on the same streams."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtr, stdtrit

LEVEL = 0.95
EQUAL = 1e-9  # differences below are those of rounding


@dataclass(frozen=True)
class Score:
    """Over seeds; None where it is undefined."""

    mean: float | None
    deviation: float | None  # of the sample
    interval: tuple[float, float] | None  # Student's, 95 %


@dataclass(frozen=True)
class Comparison:
    """A method beside the best one, on the draws (seed and stream) that both have seen."""

    pairs: int
    difference: float | None  # mean, to the best
    p: float | None  # of a paired two-sided t-test
    p_holm: float | None  # the same, corrected for the number of methods compared


def score(values: Sequence[float | None]) -> Score:
    """Undefined in one run is undefined in the mean.

    >>> score([3.0, 3.0])
    Score(mean=3.0, deviation=0.0, interval=(3.0, 3.0))
    >>> score([3.0]), score([3.0, None])
    (Score(mean=3.0, deviation=None, interval=None), Score(mean=None, deviation=None, interval=None))
    """
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return Score(None, None, None)
    several = len(numbers) > 1
    return Score(fmean(numbers), stdev(numbers) if several else None, interval(numbers) if several else None)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of the mean.

    Two values lie symmetrically around their mean, and the t of one degree of freedom is 12.706:

    >>> [round(end, 2) for end in interval([0.0, 8.0])]  # 4 - 12.706 * 4 and 4 + 12.706 * 4
    [-46.82, 54.82]
    """
    mean = fmean(values)
    error = stdev(values) / len(values) ** 0.5
    reach = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * error
    return mean - reach, mean + reach


def compared(ours: dict[str, float | None], best: dict[str, float | None]) -> Comparison:
    """Two methods by their values for each draw; ``p_holm`` is that of a single comparison.

    >>> found = compared({"a": 1.0, "b": 2.0, "c": 9.0}, {"a": 1.0, "b": 4.0, "d": 0.0})
    >>> found.pairs, found.difference, round(found.p, 6)
    (2, -1.0, 0.5)
    """
    both = [(value, best[draw]) for draw, value in ours.items() if draw in best]
    differences = [one - other for one, other in both if one is not None and other is not None]
    if not differences:
        return Comparison(0, None, None, None)
    p = paired_p(differences)
    return Comparison(len(differences), fmean(differences), p, p)


def paired_p(differences: Sequence[float]) -> float | None:
    """Of a two-sided t-test that the mean difference is 0; None for a single pair, 1 if the pairs are equal."""
    if len(differences) < 2:
        return None
    if max(map(abs, differences)) < EQUAL:
        return 1.0
    error = stdev(differences) / len(differences) ** 0.5
    if error < EQUAL:
        return 0.0
    return float(2 * stdtr(len(differences) - 1, -abs(fmean(differences)) / error))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """P-values corrected for their number, in their order.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    known = sorted((value, index) for index, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (value, index) in enumerate(known):
        largest = max(largest, min(1.0, value * (len(known) - rank)))
        corrected[index] = largest
    return corrected
