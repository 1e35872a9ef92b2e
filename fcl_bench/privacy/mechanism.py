"""How much Gaussian noise (epsilon, delta) asks for, exactly.

The analytic Gaussian mechanism (Balle and Wang, 2018): noise of deviation s, on what one sample changes by at most 1,
is (epsilon, delta)-private if and only if Phi(1/2s - epsilon s) - e^epsilon Phi(-1/2s - epsilon s) <= delta.
"""

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr


def delta_of(deviation: float, epsilon: float) -> float:
    """The smallest delta for noise of this deviation."""
    half = 1 / (2 * deviation)
    shift = epsilon * deviation
    return float(ndtr(half - shift) - math.exp(epsilon + log_ndtr(-half - shift)))


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest deviation that will do, for what one sample changes by at most 1.

    >>> round(noise_multiplier(1.0, 1e-5), 2)
    3.73
    """
    low = high = 1.0
    while delta_of(high, epsilon) > delta:
        high *= 2
    while delta_of(low, epsilon) <= delta:
        low /= 2
    return float(brentq(lambda deviation: delta_of(deviation, epsilon) - delta, low, high, xtol=1e-12, rtol=1e-12))
