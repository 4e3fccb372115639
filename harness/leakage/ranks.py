"""The rank of a loss among those of a population: a false positive rate for each record."""

import numpy as np

from harness.leakage.matrices import Floats
from harness.leakage.scoring import cross_entropy


def population_ranks(phi: Floats, population_phi: Floats) -> Floats:
    """(M, n): the calibrated rank of every record's loss among the losses of its model's population."""
    pairs = zip(cross_entropy(phi), cross_entropy(population_phi), strict=True)
    return np.stack([calibrated_rank(own, others) for own, others in pairs])


def calibrated_rank(losses: Floats, population: Floats) -> Floats:
    """The share of the population with a lower loss, as a strictly increasing function of the loss.

    Mid-ranks over p + 1 at the population's losses, linear between them and down to 0 at loss 0,
    approaching 1 hyperbolically above the largest. Values that rounding would make equal are
    set apart by single steps of float64, so that distinct losses keep distinct ranks.
    """
    knots, times = np.unique(population, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2) / (len(population) + 1)
    distinct, where = np.unique(losses, return_inverse=True)
    rank = np.interp(distinct, knots, ranks)
    low, high = distinct < knots[0], distinct > knots[-1]
    rank[low] = ranks[0] * (distinct[low] / knots[0])
    rank[high] = 1 - (1 - ranks[-1]) * ((1 + knots[-1]) / (1 + distinct[high]))
    return _strictly_increasing(rank)[where]


def _strictly_increasing(values: Floats) -> Floats:
    """The smallest strictly increasing floats that are nowhere below these non-negative ones."""
    # The bits of non-negative floats, read as integers, count the floats in order.
    steps = np.arange(len(values))
    positions = np.maximum.accumulate(values.view(np.int64) - steps) + steps
    return positions.view(np.float64)
