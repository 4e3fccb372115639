"""The reference attack (R): a record's loss under the target against models that never saw it."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Bools, Evidence, Floats
from harness.leakage.intervals import Dependence
from harness.leakage.moments import leave_one_out


class ReferenceParams(methods.base.Params):
    """The model of the record's distribution under the references."""

    fit: Literal["gaussian", "rank"] = Field(
        default="gaussian",
        description="gaussian: a normal fitted to the rescaled logits; rank: the rank among them",
    )


class Reference:
    """Ye et al. 2022, attack R: a threshold for each record from models trained without it.

    References of target m for a record are the other models of the cell whose members exclude it.
    `gaussian` scores by the distance of the target's rescaled logit from their mean in their
    standard deviations (an increasing function of the paper's normal quantile, without its
    saturation). A record with one reference borrows the standard deviation pooled over all records.
    `rank` scores by (number below + half the number tied + 1/2) / (number + 1). A record without
    references is no evidence either way and gets the neutral score: 0, or a rank of 1/2.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "the record's rescaled logit against that of models that never saw it"
    source: ClassVar[str] = "Ye et al. 2022, Enhanced Membership Inference Attacks (arXiv:2111.09679)"
    caveats: ClassVar[tuple[str, ...]] = (
        "with R references `rank` has about R + 1 values: nothing below an FPR of 1/(R + 1)",
        "with few references the standard deviation per record is noisy; `lira` pools it",
    )
    Params: ClassVar[type[methods.base.Params]] = ReferenceParams
    shadows: ClassVar[int] = 2
    dependence: ClassVar[Dependence] = "record"

    def scores(self, evidence: Evidence, params: ReferenceParams) -> Floats:
        """(M, n): z-scores or ranks."""
        absent = evidence.excluded
        if params.fit == "rank":
            return _ranks(evidence.phi, absent)
        return leave_one_out(evidence.phi, absent).z_scores(evidence.phi, fixed=False)


def _ranks(phi: Floats, absent: Bools) -> Floats:
    """Row m's mid-rank among the other rows where they are absent; the loss falls as phi rises."""
    ranks = np.empty(phi.shape)
    for m in range(len(phi)):
        others = np.arange(len(phi)) != m
        usable = absent[others]
        below = ((phi[others] < phi[m]) & usable).sum(axis=0)
        tied = ((phi[others] == phi[m]) & usable).sum(axis=0)
        ranks[m] = (below + (tied + 1) / 2) / (usable.sum(axis=0) + 1)
    return ranks


attack: Attack = Reference()
