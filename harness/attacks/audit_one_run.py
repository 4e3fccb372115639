"""audit-one-run: guess which canaries were members; too many correct guesses refute an epsilon."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import methods.base
from harness.accounting.audited import one_run
from harness.attacks.base import Audit, Bools, Bound, Evidence
from methods.base import Probability

SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)


class AuditOneRunParams(methods.base.Params):
    """The number of guesses and the confidence of the bound."""

    confidence: Probability = Field(default=0.95, description="Confidence of the lower bound.")
    share: Probability | None = Field(
        default=None,
        description="Share of a model's canaries guessed on a side, at most 0.5; none: six shares are tried, "
        "at a cost in confidence.",
    )
    sides: Literal["in", "both"] | None = Field(
        default=None,
        description="Guess members only, or non-members too; none: both are tried, at a cost in confidence.",
    )


class AuditOneRun:
    """Steinke, Nasr and Jagielski 2023, over all models of the cell.

    The canaries of one model are members by independent fair coins, and a coin touches one model only: the
    coins of all M models together are the coins of one run of a mechanism that trains M models, which keeps
    the (epsilon, delta) of a single run towards each of them. A score reads the target's own logits, so a
    guess is a function of what was released only. Trying several numbers of guesses costs confidence
    (Bonferroni).
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "lower bound on epsilon from guesses about canaries of every model"
    source: ClassVar[str] = (
        "Steinke, Nasr and Jagielski 2023, Privacy Auditing with One (1) Training Run (arXiv:2305.08846)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "a small bound proves nothing: it is about these canaries and this adversary",
        "r correct guesses out of r prove about log(r / 3) at 95 %: many canaries or models are needed",
        "a method without a guarantee gets an effective epsilon at this canary, never a guarantee",
    )
    Params: ClassVar[type[methods.base.Params]] = AuditOneRunParams
    shadows: ClassVar[int] = 0

    def bound(self, evidence: Evidence, params: AuditOneRunParams, delta: float) -> Bound:
        """The best bound over the numbers of guesses."""
        count = evidence.canaries
        scores, members = evidence.phi[:, -count:], evidence.members[:, -count:]
        ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
        tries = sorted({(max(1, round(share * count)), sides) for share, sides in _tries(params)})
        each = 1 - (1 - params.confidence) / len(tries)
        found = [
            _bound(ranks, members, number, sides, delta, each, evidence.copies) for number, sides in tries
        ]
        best = max(found, key=lambda bound: bound.epsilon)
        return Bound(best.epsilon, params.confidence, best.trials, best.guesses, best.correct)


def _tries(params: AuditOneRunParams) -> list[tuple[float, str]]:
    shares = SHARES if params.share is None else (params.share,)
    sides = ("in", "both") if params.sides is None else (params.sides,)
    return [(min(share, 0.5), side) for share in shares for side in sides]


def _bound(
    ranks: NDArray[np.int64],
    members: Bools,
    number: int,
    sides: str,
    delta: float,
    confidence: float,
    copies: int,
) -> Bound:
    """Guess the `number` highest of every model to be members and, on both sides, the lowest not to be."""
    guessed_in, guessed_out = ranks < number, np.zeros_like(members)
    if sides == "both":
        guessed_out = (ranks >= ranks.shape[1] - number) & ~guessed_in
    guesses = int(guessed_in.sum() + guessed_out.sum())
    right = int((guessed_in & members).sum() + (guessed_out & ~members).sum())
    epsilon = one_run(members.size, guesses, right, delta, confidence, copies)
    return Bound(epsilon, confidence, members.size, guesses, right)


attack: Audit = AuditOneRun()
