"""Leakage figures with the influence of every (target, record) pair on them.

A figure's estimate minus its expectation is about the sum of the influence values U, so sums of U over rows
and columns give its variance, whatever the dependence between targets (harness/leakage/intervals.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import EllipsisType

import numpy as np

from harness.leakage.matrices import Bools, Floats
from harness.leakage.roc import Roc
from workloads.errors import BenchError


@dataclass(frozen=True)
class Scored:
    """The scores of an attack on every target, higher = member, with the true membership."""

    scores: Floats
    """(M, n). Infinities are ordered as numbers."""
    members: Bools
    """(M, n): every target has members and non-members."""
    evaluated: Bools | None = None
    """(M, n): False for members that a method set aside, which count as neither; None: all count."""

    @property
    def pairs(self) -> Bools | EllipsisType:
        """An index of the (target, record) pairs that count."""
        return ... if self.evaluated is None else self.evaluated

    @property
    def included(self) -> Bools:
        """(M, n): the records that a target was trained on."""
        return self.members if self.evaluated is None else self.members & self.evaluated

    @property
    def excluded(self) -> Bools:
        """(M, n): the records that a target never saw."""
        return ~self.members if self.evaluated is None else ~self.members & self.evaluated

    @cached_property
    def roc(self) -> Roc:
        """Pooled over targets; sorted once for all figures."""
        return Roc.of(self.scores[self.pairs], self.members[self.pairs])

    @property
    def models(self) -> int:
        """Targets."""
        return len(self.members)

    @property
    def members_per_target(self) -> int:
        """Rounded down if targets differ."""
        return int(self.included.sum()) // self.models

    def take(self, targets: slice) -> "Scored":
        """Some targets only."""
        evaluated = None if self.evaluated is None else self.evaluated[targets]
        return Scored(self.scores[targets], self.members[targets], evaluated)

    def check(self) -> None:
        """BenchError if the scores cannot be evaluated."""
        if self.scores.ndim != 2 or self.scores.shape != self.members.shape:
            raise BenchError(
                f"scores of shape {self.scores.shape} and members of shape {self.members.shape}: "
                "both must be (targets, records)",
                field="scores",
                value=self.scores.shape,
                allowed=self.members.shape,
            )
        for target, row in enumerate(np.isnan(self.scores)):
            if row.any():
                raise BenchError(
                    f"the scores of target {target} hold {int(row.sum())} NaN of {len(row)}: "
                    "an attack must give every record a number (infinities are allowed)",
                    field="scores",
                    value=int(row.sum()),
                    allowed=0,
                )
        why = one_sided(self.included, self.excluded)
        if why is not None:
            raise BenchError(why, field="members")


def one_sided(included: Bools, excluded: Bools) -> str | None:
    """Why leakage cannot be measured with these masks; None if it can."""
    counts = zip(included.sum(axis=1).tolist(), excluded.sum(axis=1).tolist(), strict=True)
    for target, (inside, outside) in enumerate(counts):
        if not inside or not outside:
            return (
                f"target {target} has {inside} members and {outside} non-members: "
                "leakage needs at least one of each"
            )
    return None


@dataclass(frozen=True)
class Influence:
    """An estimate and the contribution of every pair to its error."""

    value: float
    values: Floats
    """(M, n): U; the estimate minus its expectation is about their sum."""

    @property
    def per_target(self) -> Floats:
        """(M,): the value of every target alone; exact for a mean over targets."""
        return np.asarray(self.value + len(self.values) * self.values.sum(axis=1))


Figure = Callable[[Scored], Influence]


def auc(scored: Scored) -> Influence:
    """The mean over targets of the AUC, ties counting half."""
    models = scored.models
    values, aucs = np.zeros(scored.scores.shape), np.empty(models)
    counted = [slice(None) if scored.evaluated is None else scored.evaluated[m] for m in range(models)]
    for m, own in enumerate(counted):
        inside = scored.members[m, own]
        placed, aucs[m] = placements(scored.scores[m, own], inside)
        n1 = int(inside.sum())
        values[m, own] = (placed - aucs[m]) / np.where(inside, n1, len(inside) - n1) / models
    mean = float(aucs.mean())
    for m, own in enumerate(counted):
        values[m, own] += (aucs[m] - mean) / len(values[m, own]) / models
    return Influence(mean, values)


def placements(scores: Floats, members: Bools) -> tuple[Floats, float]:
    """(n,) placements of one target, and its AUC, the mean of either side.

    For a member the share of non-members below it, for a non-member the share of members above it; ties count
    half (DeLong et al. 1988).
    """
    order = np.argsort(scores)
    ranked, inside = scores[order], members[order]
    starts = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    group = np.cumsum(starts) - 1
    members_in = np.bincount(group, inside)
    others_in = np.bincount(group) - members_in
    n1, n0 = members_in.sum(), others_in.sum()
    beaten = (np.cumsum(others_in) - others_in / 2) / n0
    beating = (n1 - np.cumsum(members_in) + members_in / 2) / n1
    placed = np.empty(len(scores))
    placed[order] = np.where(inside, beaten[group], beating[group])
    return placed, float((beaten * members_in).sum() / n1)


def tpr(scored: Scored, rate: Fraction) -> Influence:
    """The pooled TPR at a false positive rate; the threshold, set by non-members, has an error of its own.

    One more non-member above the threshold moves it, and the TPR by the slope of the ROC, taken between half
    and twice the rate.
    """
    roc, low, high = scored.roc, rate / 2, min(2 * rate, Fraction(1))
    value = roc.at(rate)
    if rate == 1:
        return Influence(value, np.zeros(scored.scores.shape))
    slope = (roc.at(high) - roc.at(low)) / float(high - low)
    called = roc.threshold(rate).called(scored.scores)
    inside, outside = (called - value) / roc.n_members, (called - float(rate)) * (-slope / roc.n_nonmembers)
    return Influence(value, _sides(scored, inside, outside))


def balanced_accuracy(scored: Scored) -> Influence:
    """(1 + TPR - FPR) / 2 when as many records of a target are predicted members as it has, ties shared.

    The number of members is public, so no threshold is learnt and there is no bias.
    """
    called = np.zeros(scored.scores.shape)
    for m in range(scored.models):
        own = slice(None) if scored.evaluated is None else scored.evaluated[m]
        called[m, own] = call_highest(scored.scores[m, own], int(scored.included[m].sum()))
    gap = mean_gap(called, scored)
    return Influence((1 + gap.value) / 2, gap.values / 2)


def call_highest(scores: Floats, count: int) -> Floats:
    """(n,): 1 for the `count` highest scores, 0 for others, the rest shared among ties at the threshold."""
    cut = np.partition(scores, len(scores) - count)[len(scores) - count]
    called = (scores > cut).astype(np.float64)
    equal = scores == cut
    called[equal] = (count - called.sum()) / equal.sum()
    return np.asarray(called)


def mean_gap(gained: Floats, scored: Scored) -> Influence:
    """The mean over targets of the gain on members minus that on non-members, (M, n)."""
    n1, n0 = (side.sum(axis=1, keepdims=True) for side in (scored.included, scored.excluded))
    inside = float(((gained * scored.included).sum(axis=1) / n1[:, 0]).mean())
    outside = float(((gained * scored.excluded).sum(axis=1) / n0[:, 0]).mean())
    values = _sides(scored, (gained - inside) / n1, (outside - gained) / n0) / scored.models
    return Influence(inside - outside, values)


def _sides(scored: Scored, inside: Floats, outside: Floats) -> Floats:
    """(M, n): one value for members, another for non-members, 0 for pairs that do not count."""
    values = np.where(scored.members, inside, outside)
    return values if scored.evaluated is None else values * scored.evaluated
