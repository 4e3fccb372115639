"""The von Mises-Fisher distribution: Bessel functions that stay accurate, and its Rényi divergence."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ive

Floats = NDArray[np.float64]

UNIFORM = 50.0
"""From this Bessel order on the uniform expansion with five terms is exact to 1e-12."""


def log_normaliser(dimension: int, kappa: ArrayLike) -> Floats:
    """log of E[exp(kappa u_1)] for u uniform on the unit sphere: 0 at kappa = 0, its derivative is A_K.

    Equals log 0F1(; K/2; kappa^2/4). Unlike the logarithm of a Bessel function it is small where kappa is,
    so that differences keep their digits: K = 1e6 with kappa = 1 as well as with kappa = 3e8.
    """
    kappa = np.asarray(kappa, dtype=np.float64)
    order = dimension / 2 - 1
    small = kappa**2 / 4 < order + 1
    found = np.empty_like(kappa)
    found[small] = _series(order, kappa[small])
    large = _uniform if order >= UNIFORM else _direct
    found[~small] = large(order, kappa[~small])
    return found


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
    """Debye's uniform expansion (DLMF 10.41.3), with its value at kappa = 0 taken off term by term."""
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


def mean_resultant_length(dimension: int, kappa: float) -> float:
    """A_K(kappa) = I_{K/2}(kappa) / I_{K/2-1}(kappa): the length of the mean of a draw."""
    ratio = log_normaliser(dimension + 2, [kappa]) - log_normaliser(dimension, [kappa])
    return float(kappa / dimension * np.exp(ratio[0]))


def renyi_von_mises_fisher(dimension: int, kappa: float, orders: ArrayLike) -> Floats:
    """D_a between draws around opposite directions, the worst case, at every order > 1.

    The density ratio to the power a is again of von Mises-Fisher form, with concentration (2 a - 1) kappa
    (Gil, Alajaji and Linder 2013). Never above the pure price 2 kappa.
    """
    orders = np.asarray(orders, dtype=np.float64)
    tilted = log_normaliser(dimension, (2 * orders - 1) * kappa)
    divergence = (tilted - log_normaliser(dimension, [kappa])) / (orders - 1)
    return np.asarray(np.minimum(divergence, 2 * kappa))


def cosine_losses(dimension: int, kappa: float, nodes: int) -> tuple[Floats, Floats]:
    """Privacy losses 2 kappa cos(angle) of a draw against the opposite direction, with their masses.

    A trapezoid over the angle, whose density sin^{K-2} e^{kappa cos} is smooth, reaching 20 standard
    deviations to each side of the mode: what is left out is far below rounding.
    """
    rest = dimension - 2
    mode = math.acos(2 * kappa / (rest + math.hypot(rest, 2 * kappa)))
    curvature = kappa * math.cos(mode) + (rest / math.sin(mode) ** 2 if rest else 0.0)
    reach = 20 / math.sqrt(curvature)
    angles = np.linspace(max(0.0, mode - reach), min(math.pi, mode + reach), nodes)
    with np.errstate(divide="ignore"):
        density = kappa * np.cos(angles) + (rest * np.log(np.sin(angles)) if rest else 0.0)
    masses = np.exp(density - density.max())
    masses[[0, -1]] /= 2
    return 2 * kappa * np.cos(angles), masses / masses.sum()
