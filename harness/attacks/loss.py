"""The loss attack: members have lower loss."""

from typing import ClassVar

import methods.base
from harness.attacks.base import Attack, Evidence, Floats
from harness.leakage.intervals import Dependence
from harness.leakage.scoring import loss


class LossParams(methods.base.Params):
    """Nothing to set."""


class Loss:
    """Yeom et al. 2018: the score is minus the target's own cross-entropy on the record."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "members have lower loss under the target; one threshold for all records"
    source: ClassVar[str] = "Yeom et al. 2018, Privacy Risk in Machine Learning (arXiv:1709.01604)"
    caveats: ClassVar[tuple[str, ...]] = (
        "average case: a hard member looks like a non-member, so TPR at low FPR stays near FPR",
    )
    Params: ClassVar[type[methods.base.Params]] = LossParams
    shadows: ClassVar[int] = 0
    dependence: ClassVar[Dependence] = "alone"

    def scores(self, evidence: Evidence, params: LossParams) -> Floats:
        """(M, n): minus the loss."""
        return loss(evidence.phi)


attack: Attack = Loss()
