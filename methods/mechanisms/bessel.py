"""Modified Bessel functions for the von Mises-Fisher distribution: exact from two dimensions to millions."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ive

Floats = NDArray[np.float64]

UNIFORM = 50.0
"""From this Bessel order on the uniform expansion with five terms is exact to 1e-12."""


def log_normaliser(dimension: int, kappa: ArrayLike) -> Floats:
    """log of E[exp(kappa u_1)] for u uniform on the unit sphere: 0 at kappa = 0, its derivative is A_K.

    Equals log 0F1(; K/2; kappa^2/4). Unlike the logarithm of a Bessel function it is small if kappa is, so
    that differences keep their precision: for K = 1e6 with kappa = 1 as well as with kappa = 3e8.
    """
    kappa = np.asarray(kappa, dtype=np.float64)
    order = dimension / 2 - 1
    small = kappa**2 / 4 < order + 1
    found = np.empty_like(kappa)
    found[small] = _series(order, kappa[small])
    large = _uniform if order >= UNIFORM else _direct
    found[~small] = large(order, kappa[~small])
    return found


def mean_resultant_length(dimension: int, kappa: float) -> float:
    """A_K(kappa) = I_{K/2}(kappa) / I_{K/2-1}(kappa): the length of the mean of a von Mises-Fisher draw.

    1 at infinite kappa.
    """
    if kappa == np.inf:
        return 1.0
    ratio = log_normaliser(dimension + 2, [kappa]) - log_normaliser(dimension, [kappa])
    return float(kappa / dimension * np.exp(ratio[0]))


def _series(order: float, kappa: Floats) -> Floats:
    """The hypergeometric series; its terms fall faster than 1 / k! here."""
    term, total = np.ones_like(kappa), np.zeros_like(kappa)
    for k in range(1, 30):
        term = term * (kappa**2 / 4) / (k * (order + k))
        total = total + term
    return np.log1p(total)


def _direct(order: float, kappa: Floats) -> Floats:
    return np.asarray(np.log(ive(order, kappa)) + kappa + gammaln(order + 1) - order * np.log(kappa / 2))


def _uniform(order: float, kappa: Floats) -> Floats:
    """Debye's uniform expansion (DLMF 10.41.3), with its value at kappa = 0 subtracted term by term."""
    root = np.hypot(1.0, kappa / order)
    excess = (kappa / order) ** 2 / (1 + root)
    lead = order * (excess - np.log1p(excess / 2)) - np.log(root) / 2
    return np.asarray(lead + np.log(_debye(order, 1 / root)) - np.log(_debye(order, np.ones(1))))


def _debye(order: float, p: Floats) -> Floats:
    """1 + u_1(p)/v + ... + u_4(p)/v^4 (DLMF 10.41.10)."""
    s = p * p
    u1 = p * (3 - 5 * s) / 24
    u2 = s * (81 + s * (-462 + 385 * s)) / 1152
    u3 = p * s * (30375 + s * (-369603 + s * (765765 - 425425 * s))) / 414720
    u4 = s * s * (4465125 + s * (-94121676 + s * (349922430 + s * (-446185740 + 185910725 * s)))) / 39813120
    return np.asarray(1 + (u1 + (u2 + (u3 + u4 / order) / order) / order) / order)
