"""The population attack (P): the rank of a record's loss among those of known non-members."""

from typing import ClassVar

import numpy as np

import methods.base
from harness.attacks.base import Attack, Evidence, Floats, cross_entropy
from harness.leakage.intervals import Dependence
from workloads.errors import BenchError


class PopulationParams(methods.base.Params):
    """Nothing to set."""


class Population:
    """Ye et al. 2022, attack P: the threshold is a quantile of the losses of population records.

    The score is minus the false positive rate at which the record would be classified as a member, so
    a threshold of -0.01 has an FPR of about 1 %, whatever the target.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "the loss, calibrated on records that are never members"
    source: ClassVar[str] = "Ye et al. 2022, Enhanced Membership Inference Attacks (arXiv:2111.09679)"
    caveats: ClassVar[tuple[str, ...]] = (
        "for each target an increasing function of minus the loss, so it has the AUC of `loss`",
        "false positive rates below one in the population's size are extrapolated",
    )
    Params: ClassVar[type[methods.base.Params]] = PopulationParams
    shadows: ClassVar[int] = 0
    dependence: ClassVar[Dependence] = "alone"

    def scores(self, evidence: Evidence, params: PopulationParams) -> Floats:
        """(M, n): minus the calibrated false positive rate, in (-1, 0]."""
        if not len(evidence.population_labels):
            raise BenchError(
                "the population attack needs population records, but there are 0: "
                "give the workload test records or leave the attack out",
                field="population",
                value=0,
                allowed=1,
            )
        pairs = zip(cross_entropy(evidence.phi), cross_entropy(evidence.population_phi), strict=True)
        return np.stack([-calibrated_rank(own, others) for own, others in pairs])


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


attack: Attack = Population()
