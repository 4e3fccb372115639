"""The theory of PD-SGD's privacy test: the probability that a batch passes, and the paper's bounds on it.

Everything depends on two numbers: `x`, the distance of two batches' gradients in units of the noise's
standard deviation, and the threshold `gamma`. The paper's d is (x sigma)^2. So its curves against sigma are
linear in sigma, and "sigma^2 gamma constant" is a rule for large gamma only.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

Numbers = NDArray[np.float64]

DIMENSION = 7680
"""Of the gradients in the paper's Figure 1: 768 features, 10 classes."""


def plausibility(x: ArrayLike, gamma: float) -> Numbers:
    """q: the probability that a batch at distance x passes (Lemma 1). It falls with x, from 1."""
    low, high = _ends(x, gamma)
    # Upper tails if both ends are positive: the difference of two numbers near 1 would be 0.
    return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


def lemma_2(x: ArrayLike, gamma: float) -> Numbers:
    """The paper's upper bound on q for x^2 > 2 gamma; NaN elsewhere.

    Its constant is sigma sqrt(2 d); printed as sqrt(2 d sigma) it would not scale. Written with the
    density at both ends, so that e^(gamma / 2) cannot overflow.
    """
    low, high = _ends(x, gamma)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = _density(low) / low - _density(high) * high / (high**2 + 1)
    return np.where(low > 0, bound, math.nan)


def corollary_1(x: ArrayLike, gamma: float) -> Numbers:
    """The paper's simpler bound, with f = 2 gamma / x^2; also needs x > 2. NaN elsewhere."""
    low, high = _ends(x, gamma)
    centre = np.asarray(x, dtype=np.float64) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = gamma / (2 * centre**2)
        bound = (_density(low) / (1 - share) - _density(high) / (2 + share)) / centre
    return np.where((low > 0) & (centre > 1), bound, math.nan)


def rejected_from(gamma: float, delta: float) -> float:
    """The distance, in units of sigma, from which a batch passes with probability at most delta."""
    far = 1.0
    while plausibility(far, gamma) > delta:
        far *= 2
    return float(brentq(lambda x: float(plausibility(x, gamma)) - delta, 1e-9, far, xtol=1e-13))


def normalised_distance(sigma: float, gamma: float, delta: float) -> float:
    """sqrt(d* / k) of the paper's Figure 1: the same distance per coordinate of the gradient."""
    return sigma * rejected_from(gamma, delta) / math.sqrt(DIMENSION)


def half_accepted_at(gamma: float) -> float:
    """The distance, in units of sigma, at which about half of the batches pass: sqrt(2 gamma)."""
    return math.sqrt(2 * gamma)


def _ends(x: ArrayLike, gamma: float) -> tuple[Numbers, Numbers]:
    """The interval of a standard normal variable in which a batch passes."""
    distance = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore"):
        reach = gamma / distance
    return distance / 2 - reach, distance / 2 + reach


def _density(y: Numbers) -> Numbers:
    return np.exp(-(y**2) / 2) / math.sqrt(2 * math.pi)
