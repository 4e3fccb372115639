"""Paired comparisons of methods, over the models of equal index, which have the same members.

A method is called better only if the paired test is significant after Holm's correction over all pairs of an
axis; otherwise the two are indistinguishable, and the smallest detectable difference is reported. That two
intervals do not overlap is no such test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import stats

from harness.leakage import influence, intervals
from harness.leakage.candidates import FAMILY, Candidates
from harness.leakage.influence import Figure, Scored
from harness.leakage.intervals import Dependence
from harness.leakage.matrices import Bools, Floats
from harness.leakage.roc import RATES
from workloads.errors import BenchError

FEWEST = 4
"""The fewest models that both cells must have."""
POWER = 0.8
LEVEL = 0.05
"""The family-wise level of Holm's correction."""
ROUNDING = 1e-12
"""A spread below this counts as none."""
NO_SPREAD = "no spread between models"

Halves = tuple[Scored, Scored]


@dataclass(frozen=True)
class Comparison:
    """A paired difference, first minus second, with its 95 % interval; null with a reason if unknown."""

    models: int
    """Pairs."""
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    p: float | None = None
    """Two-sided, of this pair alone."""
    effect_size: float | None = None
    """The difference in standard deviations of the paired differences (d_z); of accuracies only."""
    detectable: float | None = None
    """The smallest difference that this many models detect with a power of 80 %."""
    reason: str | None = None


def figure(axis: str) -> Figure:
    """A leakage figure by its name: `auc`, or one of the reported rates for the TPR at it."""
    return influence.auc if axis == "auc" else partial(influence.tpr, rate=RATES[axis])


def paired_accuracy(first: Floats, second: Floats) -> Comparison:
    """Compare accuracies of models of equal index, (M,) each."""
    models = len(first)
    if models < FEWEST:
        return _too_few(models)
    differences = first - second
    spread = float(differences.std(ddof=1))
    found = _compared(float(differences.mean()), spread / np.sqrt(models), models)
    if found.difference is None or spread < ROUNDING:
        return found
    return replace(found, effect_size=found.difference / spread)


def paired_leakage(
    axis: str,
    first: Scored,
    second: Scored,
    dependence: Dependence,
    first_apart: Halves | None = None,
    second_apart: Halves | None = None,
) -> Comparison:
    """Compare the leakage of two cells under the same attack.

    Args:
        axis: `auc`, or a reported rate.
        first: of one method.
        second: of the other, on models with the same members.
        dependence: of the attack.
        first_apart: the halves of the first cell, each scored with its own shadows.
        second_apart: those of the second.
    """
    _same_members(first.members, second.members)
    if first.models < FEWEST:
        return _too_few(first.models)
    measure = figure(axis)
    one, other = measure(first), measure(second)
    halves = (first_apart, second_apart)
    apart = [each and (measure(each[0]).values, measure(each[1]).values) for each in halves]
    error = _paired_error(one.values - other.values, dependence, *apart)
    return _compared(one.value - other.value, error, first.models)


@dataclass(frozen=True)
class Measured:
    """The strongest attack on one cell by one figure, ready to be paired with other cells."""

    value: float
    members: Bools
    values: Mapping[str, Floats]
    """Influence values of every attack of the family."""
    apart: Mapping[str, tuple[Floats, Floats]]
    """Those of the halves of the cell, of the attacks that have them."""

    @property
    def models(self) -> int:
        """Targets."""
        return len(self.members)


def measure_strongest(axis: str, candidates: Candidates, apart: Mapping[str, Halves]) -> Measured:
    """A cell's leakage by `auc` or a reported rate; `apart`: the halves, for attacks that have them."""
    measure = figure(axis)
    value = candidates.auc() if axis == "auc" else candidates.tpr(RATES[axis])
    return Measured(
        value.value,
        candidates.any.members,
        {name: measure(scored).values for name, scored in candidates.scored.items()},
        {name: (measure(one).values, measure(two).values) for name, (one, two) in apart.items()},
    )


def paired_strongest(first: Measured, second: Measured) -> Comparison:
    """Compare the strongest attacks on two cells; the error is the largest of the family's paired ones."""
    _same_members(first.members, second.members)
    if first.models < FEWEST:
        return _too_few(first.models)
    errors = []
    for name, dependence in FAMILY.items():
        values = first.values[name] - second.values[name]
        apart = first.apart.get(name), second.apart.get(name)
        errors.append(_paired_error(values, dependence, *apart))
    return _compared(first.value - second.value, max(errors), first.models)


def _paired_error(
    values: Floats,
    dependence: Dependence,
    first: tuple[Floats, Floats] | None,
    second: tuple[Floats, Floats] | None,
) -> float:
    """The standard error of a difference with these influence values; H from the halves of both cells."""
    honest = 0.0
    if first is not None and second is not None:
        honest = intervals.heterogeneity(*(one - other for one, other in zip(first, second, strict=True)))
    return float(np.sqrt(intervals.variance(values, dependence, honest)))


def _same_members(first: Bools, second: Bools) -> None:
    if first.shape != second.shape or (first != second).any():
        raise BenchError(
            f"models of masks {first.shape} and {second.shape} do not have the same members: pairs are "
            "models of equal index of cells with the same workload, n_train, seed and protocol",
            field="members",
            value=second.shape,
            allowed=first.shape,
        )


def _too_few(models: int) -> Comparison:
    return Comparison(models, reason=f"needs at least {FEWEST} models that both cells have, has {models}")


def _compared(difference: float, error: float, models: int) -> Comparison:
    """The t interval and test of a difference."""
    low, high = intervals.linear(difference, error, models, (-np.inf, np.inf))
    p, reason = None, None
    if error >= ROUNDING:
        p = float(2 * stats.t.sf(abs(difference) / error, models - 1))
    elif abs(difference) < ROUNDING:
        p = 1.0
    else:
        reason = NO_SPREAD
    detectable = smallest_detectable(error, models)
    return Comparison(models, difference, low, high, error, p, detectable=detectable, reason=reason)


def smallest_detectable(error: float, models: int) -> float:
    """The difference that a two-sided t test at 5 % detects with a power of 80 %."""
    return (intervals.quantile(models) + intervals.quantile(models, POWER)) * error


def accuracy_test_se(first: Bools, second: Bools) -> float:
    """The standard error of a difference of accuracies over test records, which both methods share.

    Args:
        first: (M, n_test): whether each model of one method is right about each test record.
        second: of the other.
    """
    differences = first.mean(axis=0) - second.mean(axis=0)
    return float(np.sqrt(((differences - differences.mean()) ** 2).sum()) / len(differences))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values of a family (Holm 1979); a test that could not be run counts and stays null.

    The family is always all k (k - 1) / 2 pairs of an axis, even if only those with the best cell are shown:
    the best was chosen on the same models.
    """
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    ranked = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    for rank, (p, place) in enumerate(ranked):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p))
        adjusted[place] = highest
    return adjusted


@dataclass(frozen=True)
class Axis:
    """The wording of differences on an axis."""

    better: str
    """What the better method does."""
    scale: float
    unit: str
    decimals: int
    higher_is_better: bool

    def amount(self, value: float) -> str:
        """Without the unit."""
        return f"{self.scale * value:.{self.decimals}f}"


ACCURACY = Axis("is more accurate", 100.0, " points", 1, higher_is_better=True)
TPR = Axis("leaks less", 100.0, " points of TPR", 1, higher_is_better=False)
AUC = Axis("leaks less", 1.0, " of AUC", 3, higher_is_better=False)


def sentence(first: str, second: str, found: Comparison, adjusted: float | None, axis: Axis) -> str:
    """A comparison in words; no method is better unless Holm's p is below 5 %.

    Args:
        first: the name of the first method.
        second: of the other.
        found: first minus second.
        adjusted: the pair's p after Holm's correction.
        axis: what was compared.
    """
    if found.difference is None or found.low is None or found.high is None or found.detectable is None:
        return f"not compared: {found.reason}"
    if found.p is None or adjusted is None:
        return f"not tested: {found.reason} (difference {axis.amount(found.difference)}{axis.unit})"
    if adjusted >= LEVEL:
        ends = f"[{axis.amount(found.low)}, {axis.amount(found.high)}]"
        return (
            f"indistinguishable (difference {axis.amount(found.difference)}{axis.unit} {ends}; "
            f"{found.models} models can show {axis.amount(found.detectable)}{axis.unit})"
        )
    wins = (found.difference > 0) == axis.higher_is_better
    sizes = sorted([abs(found.low), abs(found.high)])
    return (
        f"{first if wins else second} {axis.better} by {axis.amount(abs(found.difference))}{axis.unit} "
        f"[{axis.amount(sizes[0])}, {axis.amount(sizes[1])}], p {_shown(found.p)} "
        f"(Holm {_shown(adjusted).removeprefix('= ')})"
    )


def _shown(p: float) -> str:
    return "< .001" if p < 0.001 else f"= {p:.2g}".replace("0.", ".")
