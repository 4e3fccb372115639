"""audit-many-run: one canary over many training runs; a test that is right too often refutes an epsilon."""

from typing import ClassVar

import numpy as np
from pydantic import Field

import methods.base
from harness.accounting.audited import many_runs
from harness.attacks.base import Audit, Bools, Bound, Evidence, Floats
from methods.base import Probability
from workloads.errors import BenchError


class AuditManyRunParams(methods.base.Params):
    """The tested canary and the confidence of the bound."""

    confidence: Probability = Field(default=0.95, description="Confidence of the lower bound.")
    canary: int = Field(default=0, ge=0, description="Index of the tested canary.")


class AuditManyRun:
    """Jagielski et al. 2020: a threshold on one canary's rescaled logit, over the models of the cell.

    Models of even index choose the threshold with the largest TPR - FPR, those of odd index are tested with
    it: a threshold chosen on the scores it is tested on proves nothing. Clopper-Pearson limits of both error
    rates give the bound.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "lower bound on epsilon from one canary over many models"
    source: ClassVar[str] = (
        "Jagielski, Ullman and Oprea 2020, Auditing Differentially Private Machine Learning; Nasr et al. 2021"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "a small bound proves nothing: 100 perfect runs on each side prove 3.28, 1,000 prove 5.60",
        "half of the models choose the threshold, and only the other half count",
        "a method without a guarantee gets an effective epsilon at this canary, never a guarantee",
    )
    Params: ClassVar[type[methods.base.Params]] = AuditManyRunParams
    shadows: ClassVar[int] = 3

    def bound(self, evidence: Evidence, params: AuditManyRunParams, delta: float) -> Bound:
        """The bound from the models of odd index."""
        if params.canary >= evidence.canaries:
            message = f"canary = {params.canary}: the cell has {evidence.canaries}, numbered from 0"
            raise BenchError(message, field="canary", value=params.canary, allowed=evidence.canaries - 1)
        column = evidence.phi.shape[1] - evidence.canaries + params.canary
        scores, members = evidence.phi[:, column], evidence.members[:, column]
        called = scores[1::2] >= _threshold(scores[::2], members[::2])
        truth = members[1::2]
        hits, alarms = int((called & truth).sum()), int((called & ~truth).sum())
        inside, outside = int(truth.sum()), int((~truth).sum())
        epsilon = many_runs(hits, inside, alarms, outside, delta, params.confidence, evidence.copies)
        return Bound(epsilon, params.confidence, len(truth), len(truth), hits + outside - alarms)


def _threshold(scores: Floats, members: Bools) -> float:
    """The score from which on a model is classified as having the canary: with the largest TPR - FPR."""
    marks = np.sort(scores)
    gains = [_rate(scores[members] >= mark) - _rate(scores[~members] >= mark) for mark in marks]
    return float(marks[int(np.argmax(gains))])


def _rate(called: Bools) -> float:
    return float(called.mean()) if called.size else 0.0


attack: Audit = AuditManyRun()
