"""Intervals of leakage figures, which account for targets being each other's shadows.

The estimand is a figure's expectation over masks and training randomness, on this pool, for an attacker with
M - 1 shadows: intervals cover other seeds, not other data sets. The variance is a closed form of influence
values. A delete-one-model jackknife counts the degenerate pair terms twice (Efron and Stein 1981) and is 1.3
to 2.5 times too wide.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats
from scipy.special import expit

from harness.leakage.influence import Figure, Scored, placements
from harness.leakage.matrices import Bools, Floats

CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2
HALVED = 8
"""The fewest models for which the halves of a cell are scored separately: fewer leave too few shadows."""
FEW = 4
"""Fewer models than this are noted with the interval."""

Dependence = Literal["alone", "record", "learned"]
"""How an attack's scores of two targets depend on each other.

alone: it uses no shadows. record: one statistic of each record from the shadows, so that two targets share
terms record by record. learned: a classifier trained on the shadows, shared across records.
"""

DEPENDENCE: dict[str, Dependence] = {
    **dict.fromkeys(("blind", "label-only", "loss", "population"), "alone"),
    **dict.fromkeys(("lira", "reference", "rmia"), "record"),
    **dict.fromkeys(("salem", "shadow", "shokri", "white-box"), "learned"),
}
"""Of privbench's attacks, for stored results that lack it."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Parts:
    """Sums of squares of influence values: over models, over records, and of single pairs."""

    by_model: float
    """V_M; NaN for one model."""
    by_record: float
    """V_R"""
    by_pair: float
    """V_C"""


def parts(values: Floats) -> Parts:
    """V_M, V_R and V_C of (M, n) influence values."""
    models, records = values.shape
    by_model = float((values.sum(axis=1) ** 2).sum())
    by_record = float((values.sum(axis=0) ** 2).sum())
    return Parts(
        by_model * models / (models - 1) if models > 1 else np.nan,
        by_record * records / (records - 1) if records > 1 else np.nan,
        float((values * values).sum()),
    )


def halves(models: int) -> tuple[slice, slice]:
    """The even and the odd positions among the models of a cell."""
    return slice(0, models, 2), slice(1, models, 2)


def heterogeneity(first: Floats, second: Floats) -> float:
    """H: the true heterogeneity of records, from the influence values of two halves that share nothing.

    Each half was scored with its own half as shadows. These differences do not vary between seeds.
    """
    models = len(first) + len(second)
    product = float((first.sum(axis=0) * second.sum(axis=0)).sum())
    return max(0.0, product * (models - 1) / models)


def variance(values: Floats, dependence: Dependence, honest: float = 0.0) -> float:
    """The variance of a figure with these (M, n) influence values; `honest` is H.

    V_R - V_C, without H, estimates the covariances of targets that share statistics of records. A classifier
    shares across records, which V_R does not capture: V_C bounds it, and is attained without leakage.
    """
    found = parts(values)
    if len(values) == 1:
        return found.by_pair
    match dependence:
        case "alone":
            return found.by_model
        case "learned":
            return found.by_model + found.by_pair
        case "record":
            shared = found.by_record - found.by_pair - honest
            return found.by_model + min(max(shared, 0.0), 3 * found.by_pair)


@dataclass(frozen=True)
class Estimate:
    """A figure and its standard error."""

    value: float
    error: float


def estimate(
    figure: Figure, scored: Scored, dependence: Dependence, apart: tuple[Scored, Scored] | None = None
) -> Estimate:
    """A figure with its standard error; `apart` holds the halves of the cell, each with its own shadows."""
    found = figure(scored)
    honest = 0.0
    if apart is not None:
        honest = heterogeneity(*(figure(half).values for half in apart))
    return Estimate(found.value, float(np.sqrt(variance(found.values, dependence, honest))))


def scored_apart(
    half_scores: Floats | None, scored: Scored, dependence: Dependence
) -> tuple[Scored, Scored] | None:
    """The two halves of a cell if H applies: statistics of records, 8 models or more, scored separately."""
    if half_scores is None or dependence != "record" or scored.models < HALVED:
        return None
    first, second = map(replace(scored, scores=half_scores).take, halves(scored.models))
    return first, second


def name(dependence: Dependence, models: int, apart: bool) -> str:
    """The method of an interval; `apart`: whether the halves of the cell were scored separately."""
    if models == 1:
        return "delong"
    match dependence:
        case "alone":
            return "targets"
        case "learned":
            return "two-way, learned"
        case "record":
            return "two-way" if apart or models < HALVED else "two-way, no halves"


def remarks(models: int) -> list[str]:
    """Caveats of an interval from few models."""
    if models == 1:
        return ["over records of one model"]
    return [f"{models} models"] if models < FEW else []


def quantile(models: int, level: float = 1 - TAIL) -> float:
    """The quantile of Student's t with M - 1 degrees of freedom; of the normal for one model."""
    return float(stats.t.ppf(level, models - 1) if models > 1 else stats.norm.ppf(level))


def certain(members: int) -> float:
    """The lowest rate at which all of this many records succeed with a probability of 2.5 %."""
    return float(TAIL ** (1 / members))


def linear(value: float, error: float, models: int, ends: Interval = (0.0, 1.0)) -> Interval:
    """value +- t error, clipped to the range of the figure."""
    half = quantile(models) * error
    return max(value - half, ends[0]), min(value + half, ends[1])


def of_share(found: Estimate, models: int, members: int) -> Interval:
    """The interval of an AUC or a balanced accuracy; exactly 1 or 0 has no spread, but is uncertain.

    `members` is the number of one target's members.
    """
    if found.value in (0.0, 1.0):
        return _extreme(found.value == 1, members)
    return linear(found.value, found.error, models)


def of_rate(found: Estimate, models: int, pooled: int) -> Interval:
    """The interval of a TPR over `pooled` members, on the logit scale.

    Below one true positive, and above all but one, the rate counts as 0 or 1.
    """
    value = found.value
    if value * pooled < 1 or value * pooled > pooled - 1:
        return _extreme(value > 0.5, pooled // models)
    half = quantile(models) * found.error / (value * (1 - value))
    centre = np.log(value / (1 - value))
    return float(expit(centre - half)), float(expit(centre + half))


def _extreme(ones: bool, members: int) -> Interval:
    bound = certain(members)
    return (bound, 1.0) if ones else (0.0, 1 - bound)


def delong(scores: Floats, members: Bools) -> tuple[float | None, Interval]:
    """The standard error and the 95 % interval of one target's AUC (DeLong et al. 1988), within [0, 1].

    Their variance is zero for a perfect AUC, which finitely many records cannot prove: then the
    min(n1, n0) disjoint pairs, all correctly ordered, bound it from one side. With fewer than two
    members or non-members nothing is known: no error, [0, 1].
    """
    n1, n0 = int(members.sum()), int((~members).sum())
    if min(n1, n0) < 2:
        return None, (0.0, 1.0)
    placed, auc = placements(scores, members)
    error = float(np.sqrt(placed[members].var(ddof=1) / n1 + placed[~members].var(ddof=1) / n0))
    if auc in (0.0, 1.0):
        return error, _extreme(auc == 1, min(n1, n0))
    return error, linear(auc, error, 1)


def clopper_pearson(successes: int, trials: int) -> Interval:
    """The exact 95 % interval of a binomial proportion (Clopper and Pearson 1934)."""
    failures = trials - successes
    low = stats.beta.ppf(TAIL, successes, failures + 1) if successes else 0.0
    high = stats.beta.ppf(1 - TAIL, successes + 1, failures) if failures else 1.0
    return float(low), float(high)
