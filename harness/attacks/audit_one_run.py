"""audit-one-run: guess which canaries were members; too many right guesses refute an epsilon."""

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
    """How many guesses are made, and how sure the bound is."""

    confidence: Probability = Field(default=0.95, description="That epsilon is at least the bound.")
    share: Probability | None = Field(
        default=None,
        description="Share of a model's canaries guessed on a side, at most 0.5; none: six shares are tried "
        "and paid for.",
    )
    sides: Literal["in", "both"] | None = Field(
        default=None,
        description="Guess members only, or non-members too; none: both are tried and paid for.",
    )


class AuditOneRun:
    """Steinke, Nasr and Jagielski 2023, over all models of the cell.

    The canaries of one model are members by independent fair coins, and a coin touches one model only: the
    coins of all M models together are the coins of one run of a mechanism that trains M models, which keeps
    the (epsilon, delta) of a single training towards each of them. A score reads the target's own answer, so
    that a guess is a function of what was released and of nothing else. Trying several numbers of guesses
    costs confidence (Bonferroni).
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "lower bound on epsilon from guesses about canaries of every model"
    source: ClassVar[str] = (
        "Steinke, Nasr and Jagielski 2023, Privacy Auditing with One (1) Training Run (arXiv:2305.08846)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "a small bound proves nothing: it is about these canaries and this adversary",
        "r right guesses out of r prove about log(r / 3) at 95 %: many canaries or models are needed",
        "a method without a guarantee gets an effective epsilon at this canary, never a guarantee",
    )
    Params: ClassVar[type[methods.base.Params]] = AuditOneRunParams
    shadows: ClassVar[int] = 0

    def bound(self, evidence: Evidence, params: AuditOneRunParams, delta: float) -> Bound:
        """The best bound over the numbers of guesses that are tried."""
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
    said_in, said_out = ranks < number, np.zeros_like(members)
    if sides == "both":
        said_out = (ranks >= ranks.shape[1] - number) & ~said_in
    guesses = int(said_in.sum() + said_out.sum())
    right = int((said_in & members).sum() + (said_out & ~members).sum())
    epsilon = one_run(members.size, guesses, right, delta, confidence, copies)
    return Bound(epsilon, confidence, members.size, guesses, right)


attack: Audit = AuditOneRun()
