"""Rényi divergences that dp-accounting lacks: of finite distributions, mixtures and fixed-size samples."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from harness.accounting.accountants.sphere import Floats

Divergence = Callable[[Floats], Floats]
"""Orders to divergences of one mechanism."""


def renyi(p: ArrayLike, q: ArrayLike, order: float) -> float:
    """D_a(p || q) of two distributions over the same finite outcomes; a = 1 and infinity are the limits.

    For probabilities below the smallest double, use renyi_log.
    """
    with np.errstate(divide="ignore"):
        return renyi_log(np.log(np.asarray(p, dtype=np.float64)), np.log(np.asarray(q, np.float64)), order)


def renyi_log(log_p: Floats, log_q: Floats, order: float) -> float:
    """D_a from log probabilities; infinite if p has mass where q has none."""
    seen = log_p > -np.inf
    loss = log_p[seen] - log_q[seen]
    if order == np.inf or not np.isfinite(loss).all():
        return float(loss.max())
    if order == 1:
        return float(np.exp(log_p[seen]) @ loss)
    return float(logsumexp(log_p[seen] + (order - 1) * loss) / (order - 1))


def renyi_mixture(
    deviation: float, sensitivities: Sequence[float], chances: Sequence[float], orders: ArrayLike
) -> Floats:
    """D_a, the larger of both directions, between N(0, s^2) and a mixture of N(c_i, s^2).

    A sum over a fine grid; the Gaussian tails beyond its ends are below rounding. The tilted densities of
    order a peak as far out as a * c, which sets the ends.
    """
    orders = np.asarray(orders, dtype=np.float64)
    shifts = np.asarray(sensitivities, dtype=np.float64) / deviation
    with np.errstate(divide="ignore"):
        weights = np.log(np.asarray(chances, dtype=np.float64))
    found = []
    for order in orders:
        reach = order * (1 + np.abs(shifts).max()) + 12
        grid = np.linspace(-reach, reach, int(40 * reach) + 1)
        base = norm.logpdf(grid)
        mixed = logsumexp(weights[:, None] + norm.logpdf(grid - shifts[:, None]), axis=0)
        base, mixed = base - logsumexp(base), mixed - logsumexp(mixed)
        found.append(max(renyi_log(mixed, base, order), renyi_log(base, mixed, order)))
    return np.array(found)


def renyi_sampled(base: Divergence, pure: float, rate: float, orders: ArrayLike) -> Floats:
    """D_a of a mechanism on a fixed-size sample without replacement, under replace-one.

    Wang, Balle and Kasiviswanathan 2019, theorem 9, at whole orders; between them the cumulant is
    interpolated, which its convexity allows (their corollary 10). `pure` is the mechanism's D_infinity.
    """
    orders = np.asarray(orders, dtype=np.float64)
    if rate in (0, 1):
        return rate * base(orders)
    largest = int(np.ceil(orders.max()))
    whole = np.arange(2, largest + 1, dtype=np.float64)
    divergence = base(whole)
    # log of min(2, (e^pure - 1)^j), with e^pure capped: beyond it 2 is the smaller anyway
    cap = np.minimum(np.log(2.0), whole * np.log(np.expm1(min(pure, 2.0))))
    terms = whole * np.log(rate) + (whole - 1) * divergence + cap
    two = min(np.log(4 * np.expm1(divergence[0])) if divergence[0] < 700 else np.inf, divergence[0] + cap[0])
    terms[0] = 2 * np.log(rate) + two
    low = np.floor(orders).astype(int)
    high = np.ceil(orders).astype(int)
    share = orders - low
    cumulant = np.zeros(largest + 1)
    for order in np.unique(np.maximum(np.concatenate([low, high]), 2)):
        j = whole[: order - 1]
        choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
        cumulant[order] = np.logaddexp(0.0, logsumexp(choose + terms[: order - 1]))
    return np.asarray(((1 - share) * cumulant[low] + share * cumulant[high]) / (orders - 1))
