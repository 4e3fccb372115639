"""The population attack (P): the rank of a record's loss among those of known non-members."""

from typing import ClassVar

import methods.base
from harness.attacks.base import Attack, Evidence, Floats
from harness.leakage.intervals import Dependence
from harness.leakage.ranks import population_ranks
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
        return -population_ranks(evidence.phi, evidence.population_phi)


attack: Attack = Population()
