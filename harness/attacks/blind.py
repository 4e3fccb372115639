"""The blind check: can members be distinguished from non-members without any model?"""

from typing import ClassVar

from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Evidence, Floats
from harness.leakage.intervals import Dependence
from harness.leakage.split_prediction import predict_membership


class BlindParams(methods.base.Params):
    """The seed of the order of the records."""

    seed: int = Field(default=0, ge=0, description="seed of the order of the records and of the reduction")


class Blind:
    """A ridge classifier on the records alone; if it succeeds, the split is broken.

    It is the only attack that reads the records and, for target m, `members[m]`: it asks not what a
    model leaks but whether this split is predictable from the data. To be unbiased it predicts
    forward (progressive validation, Blum, Kalai and Langford 1999): the records are cut into random
    blocks, and those of a block are scored by a classifier trained on the earlier blocks only. No
    score uses the membership of its own record or of a later one. The first block is all ties.

    Ordinary cross-fitting, where folds score each other in turn, fails: under a random split the
    folds' results are positively correlated, which doubles the variance of the AUC and so makes the
    test of `blind_verdict` call sound splits broken. Here each block's result is unbiased given the
    earlier ones, so the variances add up as that test assumes. Scores are centred ranks within a
    block, which makes blocks comparable.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "no model at all: finds members by the records alone; should not succeed"
    source: ClassVar[str] = (
        "Das, Zhang, Tramer 2024, Blind Baselines Beat Membership Inference Attacks (arXiv:2406.16201)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "it checks the split, not the method: success makes every attack on the cell meaningless",
        "detects shifts of class shares, of means and of variances, not arbitrary differences",
    )
    Params: ClassVar[type[methods.base.Params]] = BlindParams
    shadows: ClassVar[int] = 0
    dependence: ClassVar[Dependence] = "alone"

    def scores(self, evidence: Evidence, params: BlindParams) -> Floats:
        """(M, n): centred ranks within blocks, in (-1/2, 1/2)."""
        return predict_membership(
            evidence.features, evidence.labels, evidence.members, evidence.evaluated, params.seed
        )


attack: Attack = Blind()
