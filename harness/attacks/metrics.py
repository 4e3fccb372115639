"""From scores to leakage: AUC, TPR at low FPR, accuracy, each with its interval or its reason."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from harness.attacks.base import Bools, Floats
from workloads.errors import BenchError

ONE_IN = {"0.1": 10, "0.01": 100, "0.001": 1_000, "0.0001": 10_000}
"""The reported false positive rates as one in so many: integers compare exactly."""

CONFIDENCE = 0.95
BLIND_LEVEL = 0.001
"""The share of sound splits that the blind check may call broken."""


@dataclass(frozen=True)
class Rate:
    """A true positive rate with its Clopper-Pearson interval, or the reason why there is none.

    The interval is that of the members beyond the threshold; that the threshold was itself set by
    finitely many non-members is not in it (the resolution guard keeps that error bounded).
    """

    value: float | None
    low: float | None
    high: float | None
    reason: str | None


@dataclass(frozen=True)
class Metrics:
    """How well scores tell members from non-members, over all targets of a cell."""

    models: int
    n_members: int
    n_nonmembers: int
    """Pooled: (record, target) pairs. A record counts once for every target."""
    auc: float
    """Mean of the targets' AUCs."""
    auc_low: float
    auc_high: float
    auc_pooled: float
    """One ROC over all pairs: also asks whether scores of different targets can be compared."""
    auc_interval: str
    """How the interval was made: `t over models` or, for a single target, `delong`."""
    balanced_accuracy: float
    """With a threshold chosen on other scores: other targets', or the other half of the records."""
    accuracy_oracle: float
    """Balanced accuracy of the best threshold on the very same scores: biased upwards."""
    advantage: float
    tpr: dict[str, Rate]

    def asdict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def evaluate(scores: Floats, members: Bools, evaluated: Bools | None = None) -> Metrics:
    """Judge scores against the truth.

    Args:
        scores: (M, n), higher = member. Infinities are ordered as numbers; NaN is an error.
        members: (M, n): the truth; every target needs members and non-members.
        evaluated: (M, n): False for a member that its method set aside, which counts as neither; None: all.
    """
    evaluated = check(scores, members, evaluated)
    aucs = _aucs(scores, members, evaluated)
    low, high, interval = _auc_interval(aucs, scores[0, evaluated[0]], members[0, evaluated[0]])
    curve = _Curve.of(scores[evaluated], members[evaluated])
    accuracy = _balanced_accuracy(scores, members, evaluated)
    return Metrics(
        models=len(scores),
        n_members=curve.n_members,
        n_nonmembers=curve.n_nonmembers,
        auc=float(aucs.mean()),
        auc_low=low,
        auc_high=high,
        auc_pooled=float(_aucs(scores.reshape(1, -1), members.reshape(1, -1), evaluated.reshape(1, -1))[0]),
        auc_interval=interval,
        balanced_accuracy=accuracy,
        accuracy_oracle=float((1 + (curve.tpr - curve.fpr).max()) / 2),
        advantage=2 * accuracy - 1,
        tpr={name: _tpr_at(curve, one_in) for name, one_in in ONE_IN.items()},
    )


def per_record(scores: Floats, members: Bools, evaluated: Bools | None = None) -> dict[str, float | None]:
    """How unevenly leakage falls: the TPR of single records at the pooled threshold of 1 % FPR.

    A record's TPR is the share of the models trained on it that give it away, so it moves in steps of one
    over their number. Null where there are too few non-members for that FPR.
    """
    names = ("record_tpr_median", "record_tpr_p99", "record_tpr_max")
    evaluated = np.ones_like(members) if evaluated is None else evaluated
    included, outsiders = members & evaluated, scores[~members & evaluated]
    if len(outsiders) < 10 * ONE_IN["0.01"]:
        return dict.fromkeys(names)
    below = len(outsiders) - 1 - len(outsiders) // ONE_IN["0.01"]
    called = scores > np.partition(outsiders, below)[below]
    trained = included.sum(axis=0)
    rates = ((called & included).sum(axis=0) / np.maximum(trained, 1))[trained > 0]
    return dict(zip(names, map(float, np.quantile(rates, [0.5, 0.99, 1.0])), strict=True))


def of_canaries(scores: Floats, members: Bools, evaluated: Bools | None = None) -> dict[str, Any]:
    """The same figures for canaries alone, over all targets together: every coin is its own."""
    counted = slice(None) if evaluated is None else evaluated
    flat, truth = scores[counted].reshape(1, -1), members[counted].reshape(1, -1)
    if truth.all() or not truth.any():
        return {"auc": None, "auc_low": None, "auc_high": None, "tpr": unmeasured(truth)["tpr"]}
    found = evaluate(flat, truth).asdict()
    return {name: found[name] for name in ("auc", "auc_low", "auc_high", "tpr")}


def unmeasured(members: Bools) -> dict[str, Any]:
    """The figures of an attack on models that trained on the whole pool: none, and why; no verdict either."""
    why = "every record of the pool is a member: there is nobody to tell members from"
    none = {"value": None, "low": None, "high": None, "reason": why}
    counts = {"models": len(members), "n_members": int(members.sum()), "n_nonmembers": 0}
    return {**counts, "tpr": {name: dict(none) for name in ONE_IN}, "valid": None, "message": why}


def roc(
    scores: Floats, members: Bools, evaluated: Bools | None = None, points: int = 300
) -> dict[str, list[float]]:
    """The pooled ROC as `fpr` and `tpr`, at most `points` of its own points, both ends included.

    The points are chosen evenly along FPR and TPR, on linear and on logarithmic axes, so that the
    curve keeps its shape in either picture.
    """
    evaluated = check(scores, members, evaluated)
    if points < 10:
        raise BenchError(f"a ROC of points={points} has no shape; ask for at least 10")
    curve = _Curve.of(scores[evaluated], members[evaluated])
    kept = np.arange(len(curve.fp))
    if len(kept) > points:
        each = (points - 2) // 4
        picks = [_even(axis, each) for axis in (curve.fp, curve.tp)]
        picks += [_even(np.log(np.maximum(axis, 0.5)), each) for axis in (curve.fp, curve.tp)]
        kept = np.unique(np.concatenate([[0], *picks, [len(kept) - 1]]))
    return {"fpr": curve.fpr[kept].tolist(), "tpr": curve.tpr[kept].tolist()}


def blind_verdict(metrics: Metrics) -> tuple[bool, str]:
    """Is the split sound? Not where a classifier that saw no model beats chance.

    A one-sided test of the mean AUC at level 0.001. Under a random split a target's AUC has
    variance (n1 + n0 + 1) / (12 n1 n0) (Mann and Whitney 1947; less with ties), and the masks of
    the targets are drawn independently. Every target is taken to have equally many members.

    Args:
        metrics: of the attack `blind`.

    Returns:
        Whether the cell is valid, and a sentence that says why.
    """
    n1, n0 = metrics.n_members / metrics.models, metrics.n_nonmembers / metrics.models
    deviation = np.sqrt((n1 + n0 + 1) / (12 * n1 * n0) / metrics.models)
    p = float(stats.norm.sf((metrics.auc - 0.5) / deviation))
    found = f"blind AUC {metrics.auc:.3f} over {metrics.models} targets, p = {p:.2g}"
    if p < BLIND_LEVEL:
        return False, (
            f"{found}: members differ from non-members without any model, so the split is broken "
            "and attacks on this cell do not measure leakage; draw members at random from the pool"
        )
    return True, f"{found}: no sign that members differ from non-members"


def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """The exact 95 % interval of a binomial proportion (Clopper and Pearson 1934)."""
    tail = (1 - CONFIDENCE) / 2
    failures = trials - successes
    low = stats.beta.ppf(tail, successes, failures + 1) if successes else 0.0
    high = stats.beta.ppf(1 - tail, successes + 1, failures) if failures else 1.0
    return float(low), float(high)


def check(scores: Floats, members: Bools, evaluated: Bools | None = None) -> Bools:
    """Refuse scores that cannot be judged; else which (target, record) pairs count, all where nobody says."""
    if scores.ndim != 2 or scores.shape != members.shape:
        raise BenchError(
            f"scores of shape {scores.shape} and members of shape {members.shape}: "
            "both must be (targets, records)"
        )
    for target, row in enumerate(np.isnan(scores)):
        if row.any():
            raise BenchError(
                f"the scores of target {target} hold {int(row.sum())} NaN of {len(row)}: "
                "an attack must give every record a number (infinities are allowed)"
            )
    evaluated = np.ones_like(members) if evaluated is None else evaluated
    for target, (row, counted) in enumerate(zip(members, evaluated, strict=True)):
        inside, outside = int((row & counted).sum()), int((~row & counted).sum())
        if not inside or not outside:
            raise BenchError(
                f"target {target} has {inside} members and {outside} "
                "non-members: leakage needs at least one of each"
            )
    return evaluated


def _aucs(scores: Floats, members: Bools, evaluated: Bools) -> Floats:
    """(M,): P(member's score > non-member's) + half P(equal), by mid-ranks."""
    included = members & evaluated
    n1 = included.sum(axis=1)
    n0 = evaluated.sum(axis=1) - n1
    # Who does not count has no rank, and takes none.
    ranks = stats.rankdata(np.where(evaluated, scores, np.nan), axis=1, nan_policy="omit")
    wins = np.where(included, ranks, 0.0).sum(axis=1) - n1 * (n1 + 1) / 2
    return np.asarray(wins / n1 / n0, dtype=np.float64)


def _auc_interval(aucs: Floats, scores: Floats, members: Bools) -> tuple[float, float, str]:
    """A 95 % interval of the mean AUC, within [0, 1]; scores and members are those of a lone target."""
    if len(aucs) == 1:
        low, high = delong(scores, members)
        return low, high, "delong"
    error = aucs.std(ddof=1) / np.sqrt(len(aucs))
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(aucs) - 1) * error
    return (
        float(max(aucs.mean() - half, 0.0)),
        float(min(aucs.mean() + half, 1.0)),
        "t over models",
    )


def delong(scores: Floats, members: Bools) -> tuple[float, float]:
    """The 95 % interval of one target's AUC (DeLong et al. 1988), within [0, 1].

    Their variance is zero for a perfect AUC, which finitely many records cannot prove: then the
    min(n1, n0) disjoint pairs, all won, bound it from one side. With fewer than two members or
    non-members nothing is known: [0, 1].
    """
    n1, n0 = int(members.sum()), int((~members).sum())
    if min(n1, n0) < 2:
        return 0.0, 1.0
    ranks = stats.rankdata(scores)
    won = (ranks[members] - stats.rankdata(scores[members])) / n0
    lost = 1 - (ranks[~members] - stats.rankdata(scores[~members])) / n1
    auc = float(won.mean())
    if auc in (0.0, 1.0):
        bound = ((1 - CONFIDENCE) / 2) ** (1 / min(n1, n0))
        return (bound, 1.0) if auc else (0.0, 1 - bound)
    error = np.sqrt(won.var(ddof=1) / n1 + lost.var(ddof=1) / n0)
    half = stats.norm.ppf((1 + CONFIDENCE) / 2) * error
    return float(max(auc - half, 0.0)), float(min(auc + half, 1.0))


@dataclass(frozen=True)
class _Curve:
    """The pooled ROC in counts: point k calls everything from the k-th highest score up a member.

    Records of equal score are called together or not at all.
    """

    fp: NDArray[np.int64]
    tp: NDArray[np.int64]

    @classmethod
    def of(cls, scores: Floats, members: Bools) -> "_Curve":
        order, ends = _descending(scores.ravel())
        ranked = members.ravel()[order]
        tp = np.concatenate([[0], np.cumsum(ranked)[ends]])
        fp = np.concatenate([[0], ends + 1]) - tp
        return cls(fp, tp)

    @property
    def n_members(self) -> int:
        return int(self.tp[-1])

    @property
    def n_nonmembers(self) -> int:
        return int(self.fp[-1])

    @property
    def tpr(self) -> Floats:
        return self.tp / self.n_members

    @property
    def fpr(self) -> Floats:
        return self.fp / self.n_nonmembers


def _descending(flat: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order from the highest score down, and where in it each group of equal scores ends."""
    order = np.argsort(-flat, kind="stable")
    ranked = flat[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(flat) - 1)
    return order, ends


def _tpr_at(curve: _Curve, one_in: int) -> Rate:
    """The highest TPR at FPR <= 1 / one_in, if there are non-members enough to resolve that."""
    n0, needed = curve.n_nonmembers, 10 * one_in
    if n0 < needed:
        return Rate(None, None, None, f"needs N >= {needed} non-members, has {n0}")
    hits = int(curve.tp[curve.fp * one_in <= n0].max())
    low, high = clopper_pearson(hits, curve.n_members)
    return Rate(hits / curve.n_members, low, high, None)


def _balanced_accuracy(scores: Floats, members: Bools, evaluated: Bools) -> float:
    """Mean over targets of (TPR + TNR) / 2, with every threshold chosen on other scores."""
    called, included, excluded = np.zeros_like(members), members & evaluated, ~members & evaluated
    called[evaluated] = _call_across(scores[evaluated], members[evaluated], _folds(members)[evaluated])
    tpr = (called & included).sum(axis=1) / included.sum(axis=1)
    fpr = (called & excluded).sum(axis=1) / excluded.sum(axis=1)
    return float((1 + (tpr - fpr).mean()) / 2)


def _folds(members: Bools) -> NDArray[np.int64]:
    """(M, n): targets are folds; a single target is cut into two halves alike in members."""
    if len(members) > 1:
        return np.repeat(np.arange(len(members))[:, None], members.shape[1], axis=1)
    shuffled = np.random.default_rng(0).permutation(members.shape[1])
    by_truth = shuffled[np.argsort(members[0, shuffled], kind="stable")]
    folds = np.zeros(members.shape, dtype=np.int64)
    folds[0, by_truth[1::2]] = 1
    return folds


def _call_across(scores: Floats, members: Bools, folds: NDArray[np.int64]) -> Bools:
    """Who is called a member by the threshold with the greatest TPR - FPR in the other folds.

    Where no threshold beats chance nobody is called.
    """
    order, ends = _descending(scores.ravel())
    truth, fold = members.ravel()[order], folds.ravel()[order]
    called = np.zeros(len(order), dtype=np.bool_)
    for each in np.unique(fold):
        others = fold != each
        tp, fp = (np.cumsum(others & side)[ends] for side in (truth, ~truth))
        gains = tp / max(tp[-1], 1) - fp / max(fp[-1], 1)
        best = int(gains.argmax())
        if gains[best] > 0:
            chosen = order[: ends[best] + 1][~others[: ends[best] + 1]]
            called[chosen] = True
    return called.reshape(scores.shape)


def _even(axis: Floats | NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where an increasing axis last reaches `count` evenly spaced values."""
    marks = np.linspace(axis[0], axis[-1], count)
    return np.searchsorted(axis, marks, side="right") - 1
