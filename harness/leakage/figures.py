"""From scores to the leakage figures of a result: AUC, TPR at low FPR and more, each with its interval."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from harness.leakage import exposure, influence, intervals
from harness.leakage.candidates import FAMILY, NEEDED, Candidates
from harness.leakage.influence import Scored, one_sided
from harness.leakage.intervals import Dependence, Estimate
from harness.leakage.matrices import Bools, Floats
from harness.leakage.roc import RATES
from harness.store.outcomes import CanaryLeakage, Curve, Leakage, Membership, Rate

METRICS = 2
"""The version of these figures. Raise it when the same scores would give other figures: stored results of
another version are re-evaluated at collection."""

BLIND_LEVEL = 0.001
"""The share of sound splits that the blind check may reject."""
SAME = "the attack gives every record the same score"
VERDICT = {"valid", "message"}
"""Fields that only the blind check has."""
NO_CURVE = Curve(fpr=[], tpr=[])


def evaluate(
    scores: Floats,
    members: Bools,
    dependence: Dependence,
    half_scores: Floats | None = None,
    phi: Floats | None = None,
    evaluated: Bools | None = None,
) -> Leakage:
    """Evaluate scores against the true membership.

    Args:
        scores: (M, n), higher = member. Infinities are ordered as numbers; NaN is an error.
        members: (M, n): the true membership; every target needs members and non-members.
        dependence: how the attack's scores of two targets depend on each other.
        half_scores: (M, n): row m scored with only the models of its own half (even and odd positions) as
            shadows, for attacks of dependence "record".
        phi: (M, n) rescaled logits, for the figures of single records.
        evaluated: (M, n): False for a member that its method set aside, which counts as neither; None: all.
    """
    scored = Scored(scores, members, evaluated)
    scored.check()
    apart = intervals.scored_apart(half_scores, scored, dependence)
    models, roc = scored.models, scored.roc
    area = intervals.estimate(influence.auc, scored, dependence, apart)
    error, (low, high) = _auc_interval(area, scored)
    accuracy = intervals.estimate(influence.balanced_accuracy, scored, dependence, apart)
    accuracy_low, accuracy_high = intervals.of_share(accuracy, models, scored.members_per_target)
    tpr = {label: _rate(scored, rate, dependence, apart) for label, rate in RATES.items()}
    agreed = exposure.agreement(*apart) if apart is not None else None
    exposed = exposure.records_exposed(phi, scored) if phi is not None else None
    return Leakage(
        version=METRICS,
        models=models,
        n_members=roc.n_members,
        n_nonmembers=roc.n_nonmembers,
        auc=area.value,
        auc_low=low,
        auc_high=high,
        auc_se=error,
        auc_pooled=float(np.trapezoid(roc.tpr, roc.fpr)),
        auc_chosen=None,
        interval=intervals.name(dependence, models, apart is not None),
        balanced_accuracy=accuracy.value,
        balanced_accuracy_low=accuracy_low,
        balanced_accuracy_high=accuracy_high,
        accuracy_oracle=float((1 + (roc.tpr - roc.fpr).max()) / 2),
        advantage=2 * accuracy.value - 1,
        tpr=tpr,
        note=_note(models, [scored]),
        ppv_at_1pct=exposure.ppv(tpr["0.01"].value),
        ppv_at_1pct_low=exposure.ppv(tpr["0.01"].low),
        ppv_at_1pct_high=exposure.ppv(tpr["0.01"].high),
        agreement=agreed.value if agreed else None,
        agreement_chance=agreed.chance if agreed else None,
        agreement_untrained=agreed.untrained if agreed else None,
        record_tpr_p99=exposure.record_tpr_p99(scored),
        records_exposed=exposed[0] if exposed else None,
        records_tested=exposed[1] if exposed else None,
    )


def evaluate_strongest(candidates: Candidates, phi: Floats | None = None) -> Leakage:
    """The figures of the strongest attack of the declared family; None for figures it does not define."""
    for each in candidates.scored.values():
        each.check()
    any_of = candidates.any
    area = candidates.auc()
    estimate = Estimate(area.value, area.error)
    low, high = intervals.of_share(estimate, any_of.models, any_of.members_per_target)
    tpr = {label: _strongest_rate(candidates, rate) for label, rate in RATES.items()}
    exposed = exposure.records_exposed(phi, any_of) if phi is not None else None
    return unmeasured(any_of.included, any_of.excluded, "").model_copy(
        update={
            "auc": area.value,
            "auc_low": low,
            "auc_high": high,
            "auc_se": area.error,
            "auc_chosen": area.chosen,
            "interval": "two-way, largest of three",
            "tpr": tpr,
            "note": _note(any_of.models, candidates.scored.values()),
            "ppv_at_1pct": exposure.ppv(tpr["0.01"].value),
            "ppv_at_1pct_low": exposure.ppv(tpr["0.01"].low),
            "ppv_at_1pct_high": exposure.ppv(tpr["0.01"].high),
            "records_exposed": exposed[0] if exposed else None,
            "records_tested": exposed[1] if exposed else None,
        }
    )


def recompute(
    stored: Mapping[str, NDArray[Any]],
    dependence: Dependence,
    canaries: int = 0,
    phi: Floats | None = None,
    checks_split: bool = False,
) -> Membership:
    """The outcome of a membership attack, from its file of scores.

    Args:
        stored: `scores`, `members` and, if present, `half_scores` and `set_aside`; of `strongest`
            `scores/<attack>`, `members` and `phi`.
        dependence: of the attack; that of `strongest` is the family's.
        canaries: the number of canaries, the last records, which are evaluated separately.
        phi: (M, n) rescaled logits, for the figures of single records.
        checks_split: whether this is the blind check, whose verdict makes the cell valid or not.
    """
    stop = stored["members"].shape[1] - canaries
    pool = {name: each[:, :stop] for name, each in stored.items()}
    rest = {name: each[:, stop:] for name, each in stored.items()}
    members, evaluated = _truth(pool)
    included, excluded = (side if evaluated is None else side & evaluated for side in (members, ~members))
    why = one_sided(included, excluded) or _without_scores(stored)
    if why is not None:
        lacking = unmeasured(included, excluded, why)
        verdict = {"valid": None, "message": why} if checks_split else {}
        return Membership(metrics=lacking.model_copy(update=verdict), roc=NO_CURVE)
    phi = pool.get("phi", None if phi is None else phi[:, :stop])
    if "scores" not in stored:
        scores = {name: pool[f"scores/{name}"] for name in FAMILY}
        candidates = Candidates.of(scores, members, evaluated)
        return Membership(metrics=evaluate_strongest(candidates, phi), roc=Curve(**candidates.drawn()))
    found = evaluate(pool["scores"], members, dependence, pool.get("half_scores"), phi, evaluated)
    extra: dict[str, Any] = {"canaries": of_canaries(rest["scores"], *_truth(rest)) if canaries else None}
    if checks_split:
        extra["valid"], extra["message"] = blind_verdict(found)
    drawn = Scored(pool["scores"], members, evaluated).roc.drawn()
    return Membership(metrics=found.model_copy(update=extra), roc=Curve(**drawn))


def _truth(stored: Mapping[str, NDArray[Any]]) -> tuple[Bools, Bools | None]:
    """`members` and `evaluated`; None for methods that set no record aside."""
    aside = stored.get("set_aside")
    return stored["members"], None if aside is None or not aside.any() else ~aside


def _without_scores(stored: Mapping[str, NDArray[Any]]) -> str | None:
    """Why a file has no scores; None if it has those of its attack or of the whole family."""
    if "scores" in stored or all(f"scores/{name}" in stored for name in FAMILY):
        return None
    return f"needs {', '.join(FAMILY)}, and so {NEEDED} models or more; the cell has {len(stored['members'])}"


def of_canaries(scores: Floats, members: Bools, evaluated: Bools | None = None) -> CanaryLeakage:
    """The same figures for canaries alone, pooled over all targets: their coins are independent."""
    scored = Scored(scores, members, evaluated)
    flat, truth = scores[scored.pairs].reshape(1, -1), members[scored.pairs].reshape(1, -1)
    why = one_sided(truth, ~truth)
    found = unmeasured(truth, ~truth, why) if why else evaluate(flat, truth, "alone")
    return CanaryLeakage(auc=found.auc, auc_low=found.auc_low, auc_high=found.auc_high, tpr=found.tpr)


def unmeasured(included: Bools, excluded: Bools, why: str) -> Leakage:
    """No figures, with the reason: models trained on the whole pool, or too few models."""
    nothing: dict[str, Any] = dict.fromkeys(Leakage.model_fields.keys() - VERDICT)
    rate = _rate_with(reason=why)
    measured = {
        "models": len(included),
        "n_members": int(included.sum()),
        "n_nonmembers": int(excluded.sum()),
    }
    return Leakage(
        **nothing | measured | {"version": METRICS, "tpr": dict.fromkeys(RATES, rate), "note": why}
    )


def blind_verdict(metrics: Leakage) -> tuple[bool, str]:
    """Whether the split is sound: not if a classifier without any model beats chance.

    A one-sided test of the mean AUC at level 0.001. Under a random split a target's AUC has
    variance (n1 + n0 + 1) / (12 n1 n0) (Mann and Whitney 1947; less with ties), and the masks of
    the targets are drawn independently. Every target is assumed to have equally many members.

    Args:
        metrics: of the attack `blind`.

    Returns:
        Whether the cell is valid, and why.
    """
    p = blind_chance(metrics)
    found = f"blind AUC {metrics.auc:.3f} over {metrics.models} targets, p = {p:.2g}"
    if p < BLIND_LEVEL:
        return False, (
            f"{found}: members differ from non-members without any model, so the split is broken "
            "and attacks on this cell do not measure leakage; draw members at random from the pool"
        )
    return True, f"{found}: no sign that members differ from non-members"


def blind_chance(metrics: Leakage) -> float:
    """The p-value of `blind_verdict`."""
    if metrics.auc is None:
        raise ValueError("a split without an AUC has no verdict")
    n1, n0 = metrics.n_members / metrics.models, metrics.n_nonmembers / metrics.models
    deviation = np.sqrt((n1 + n0 + 1) / (12 * n1 * n0) / metrics.models)
    return float(stats.norm.sf((metrics.auc - 0.5) / deviation))


def _note(models: int, scored: Iterable[Scored]) -> str | None:
    same = [SAME] if all(map(_constant, scored)) else []
    return "; ".join(intervals.remarks(models) + same) or None


def _constant(scored: Scored) -> bool:
    return len(scored.roc.levels) == 1


def _auc_interval(found: Estimate, scored: Scored) -> tuple[float | None, tuple[float, float]]:
    """Standard error and interval; for a single target DeLong's."""
    if scored.models == 1 and not _constant(scored):
        return intervals.delong(scored.scores[scored.pairs].ravel(), scored.members[scored.pairs].ravel())
    return found.error, intervals.of_share(found, scored.models, scored.members_per_target)


def _rate(
    scored: Scored, rate: Fraction, dependence: Dependence, apart: tuple[Scored, Scored] | None
) -> Rate:
    """The TPR at a rate, if there are enough non-members to resolve it."""
    roc = scored.roc
    reason = roc.shortage(rate)
    if reason is not None:
        return _rate_with(reason=reason)
    found = intervals.estimate(partial(influence.tpr, rate=rate), scored, dependence, apart)
    low, high = found.value, found.value
    if not _constant(scored):
        low, high = intervals.of_rate(found, scored.models, roc.n_members)
    tied = roc.tied(rate)
    note = _interpolated(tied, rate)
    return _rate_with(value=found.value, low=low, high=high, se=found.error, tied=tied, note=note)


def _strongest_rate(candidates: Candidates, rate: Fraction) -> Rate:
    roc = candidates.any.roc
    reason = roc.shortage(rate)
    if reason is not None:
        return _rate_with(reason=reason)
    found = candidates.tpr(rate)
    low, high = found.value, found.value
    if not all(map(_constant, candidates.scored.values())):
        estimate = Estimate(found.value, found.error)
        low, high = intervals.of_rate(estimate, candidates.any.models, roc.n_members)
    note = _interpolated(found.tied, rate)
    return _rate_with(
        value=found.value,
        low=low,
        high=high,
        se=found.error,
        tied=found.tied,
        note=note,
        chosen=found.chosen,
    )


def _interpolated(tied: float, rate: Fraction) -> str | None:
    if tied <= rate:
        return None
    return f"interpolated: {100 * tied:.3g} % of non-members share the score at the threshold"


def _rate_with(**figures: Any) -> Rate:
    """A rate with these figures; the others are None, and are written as such."""
    return Rate(**dict.fromkeys(Rate.model_fields) | figures)
