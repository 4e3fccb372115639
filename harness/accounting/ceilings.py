"""Ceilings on membership attacks: what a trade-off curve allows against masks of fixed size.

A trade-off curve gives the highest TPR of any test at an FPR (Dong, Roth and Su 2022). A model has exactly
`n_train` members, so where one record is left out another is in: from one data set to the other a record is
removed and another added. A price under add-or-remove-one therefore counts twice, one under replace-one once.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from harness.accounting.adjacency import REPLACE_ONE

Floats = NDArray[np.float64]
Curve = Callable[[ArrayLike], Floats]
"""FPR to the highest TPR: increasing and concave, and so is the composition of two such curves."""

BINDING = ("approximate-dp", "pure-dp")
"""Kinds of guarantee that bound every attack."""
PLD_TWICE, ONCE, LINES_TWICE = "pld twice", "replace-one", "epsilon-delta twice"
RATES = ("0.1", "0.01", "0.001", "0.0001")
"""The false positive rates at which results report a TPR."""
GRID = np.concatenate([[0.0], np.logspace(-6, 0, 400)])
"""FPRs at which the area is integrated."""
DRAWN = np.concatenate([[0.0], np.logspace(-6, 0, 100)])
"""FPRs at which the curve is stored."""
LARGEST = 700.0
"""The epsilon of the steepest line: beyond, e^epsilon is no double, and a line bounds an FPR of 0 only."""
DIGITS = 7
"""Significant digits of the stored curve."""


@dataclass(frozen=True)
class Ceilings:
    """Upper bounds on any membership attack against a guarantee, and their derivation."""

    by: str
    """`pld twice`, `replace-one` (once) or `epsilon-delta twice`."""
    auc: float
    gap: float
    """The largest TPR - FPR: the mean over members of any quantity in [0, 1] differs from that over
    non-members by no more."""
    tpr: dict[str, float]
    """By FPR."""
    curve: dict[str, list[float]]
    """`fpr` and `tpr`."""

    def asdict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def curve_of_lines(slopes: Floats, heights: Floats) -> Curve:
    """The lowest of the lines height + slope FPR, at most 1."""

    def highest(fpr: ArrayLike) -> Floats:
        lines = heights + slopes * np.asarray(fpr, dtype=np.float64)[..., None]
        return np.asarray(np.minimum(1.0, lines.min(axis=-1)))

    return highest


def curve_of_epsilon(epsilon: float, delta: float) -> Curve:
    """Kairouz et al. 2015: the lower of delta + e^eps FPR and 1 - e^-eps (1 - delta - FPR)."""
    steep, flat = math.exp(min(epsilon, LARGEST)), math.exp(-epsilon)
    return curve_of_lines(np.array([steep, flat]), np.array([delta, 1 - flat * (1 - delta)]))


def curve_of_gaussian(mu: float) -> Curve:
    """mu-GDP: Phi(Phi^-1(FPR) + mu), exact for a Gaussian with noise 1 / mu."""
    return lambda fpr: np.asarray(ndtr(ndtri(np.asarray(fpr, dtype=np.float64)) + mu))


def bound_attacks(add: Curve, remove: Curve | None, by: str) -> Ceilings:
    """The ceilings for replacing one record by another: removing one, then adding the other.

    `remove` has the record in under the null hypothesis, `add` has it out. Without `remove`, `add` is the
    curve of replacing a record. Each direction has its own curve: the higher of the two, composed with
    itself, is not concave, and means over targets could exceed it.
    """

    def ceiling(fpr: ArrayLike) -> Floats:
        return add(fpr if remove is None else remove(fpr))

    # Concave, so there is a single maximum.
    best = minimize_scalar(
        lambda fpr: fpr - float(ceiling(fpr)), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}
    )
    return Ceilings(
        by=by,
        auc=float(np.trapezoid(ceiling(GRID), GRID)),
        gap=-float(best.fun),
        tpr=dict(zip(RATES, ceiling([float(rate) for rate in RATES]).tolist(), strict=True)),
        curve={"fpr": _rounded(DRAWN), "tpr": _rounded(ceiling(DRAWN))},
    )


def ceilings_of_guarantee(guarantee: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ceilings of a guarantee stored without them, as JSON; None if it promises nothing.

    Its ledger is no longer known, so the ceilings of (epsilon, delta) are looser than the ledger's.
    """
    if guarantee["kind"] not in BINDING or guarantee["epsilon"] is None:
        return None
    found = bound_by_epsilon(guarantee["epsilon"], guarantee["delta"] or 0.0, guarantee["adjacency"])
    return found.asdict()


@lru_cache(maxsize=1024)
def bound_by_epsilon(epsilon: float, delta: float, adjacency: str) -> Ceilings:
    """The ceilings of (epsilon, delta) without a curve (Kairouz et al. 2015)."""
    lines = curve_of_epsilon(epsilon, delta)
    if adjacency == REPLACE_ONE:
        return bound_attacks(lines, None, ONCE)
    return bound_attacks(lines, lines, LINES_TWICE)


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
