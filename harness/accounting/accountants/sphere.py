"""The von Mises-Fisher distribution: its Rényi divergence and its privacy losses."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from methods.mechanisms.bessel import log_normaliser

Floats = NDArray[np.float64]


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
    deviations to each side of the mode: the rest is far below rounding.
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
