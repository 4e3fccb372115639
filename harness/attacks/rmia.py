"""RMIA: does the target raise the record's likelihood more than that of records no model trained on?"""

from typing import ClassVar, Literal

from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Evidence, Floats
from harness.leakage.declared import TEMPERATURE
from harness.leakage.intervals import Dependence
from harness.leakage.scoring import rescaled_logit, rmia, rmia_offline
from workloads.errors import BenchError


class RmiaParams(methods.base.Params):
    """Which shadows are used, and how ratios are compared."""

    mode: Literal["online", "offline"] = Field(
        default="online",
        description="online: shadows with and without the record; offline: those without it only",
    )
    offline_a: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="offline: p(x) = ((1 + a) P_out(x) + 1 - a) / 2, for population records too",
    )
    temperature: float = Field(
        default=TEMPERATURE,
        gt=0,
        description="p = softmax(logits / temperature), for x and for z",
    )
    gamma: float | None = Field(
        default=None,
        gt=0,
        description="score by the share of population records beaten by this ratio or more; none = by the "
        "interpolated rank among them",
    )


class Rmia:
    """Zarifzadeh, Liu and Shokri 2024, with every model of the cell as target in turn.

    The score of x is the rank of p(x|t) / p(x) among p(z|t) / p(z) of population records z, where p(.|t) is
    the probability of the true label under the target and p(.) its usual one: the mean of the other models
    with and of those without the record. No model trained on z, so p(z) is the mean of the other models. The
    rank is interpolated; with `gamma` it is the paper's share of z that x beats by this ratio.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "likelihood ratios of the record against records that are never members"
    source: ClassVar[str] = (
        "Zarifzadeh et al. 2024, Low-Cost High-Power Membership Inference Attacks (arXiv:2312.03262)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "the interpolated rank and the temperature of 2 are ours; the paper compares with gamma = 2",
        "with gamma and p population records the score has p + 1 values: nothing below an FPR of 1 / p",
        "offline_a is the authors' default; they tune it on a pair of models, never on the target",
        "softmax probabilities, without the Taylor softmax of the authors' experiments",
    )
    Params: ClassVar[type[methods.base.Params]] = RmiaParams
    shadows: ClassVar[int] = 1
    dependence: ClassVar[Dependence] = "record"

    def scores(self, evidence: Evidence, params: RmiaParams) -> Floats:
        """(M, n): ranks or shares, in (0, 1) or [0, 1]."""
        if not len(evidence.population_labels):
            raise BenchError(
                "rmia needs population records to compare with, but there are 0: "
                "give the workload test records or leave the attack out",
                field="population",
                value=0,
                allowed=1,
            )
        phi = rescaled_logit(evidence.logits, evidence.labels, params.temperature)
        others = rescaled_logit(evidence.population_logits, evidence.population_labels, params.temperature)
        if params.mode == "offline":
            return rmia_offline(phi, evidence.excluded, others, params.offline_a, params.gamma)
        return rmia(phi, evidence.included, evidence.excluded, others, params.gamma)


attack: Attack = Rmia()
