"""Leakage of single records: how many are exposed, and whether independent models flag the same ones."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import stats

from harness.leakage.influence import Scored
from harness.leakage.matrices import Bools, Floats
from harness.leakage.moments import RESOLUTION

RATE = Fraction(1, 100)
"""The false positive rate of every figure here."""
PRIOR = 0.1
"""Assumed share of members among the records that are attacked."""
FLAGGED = 10
"""Records that each half must flag for a meaningful overlap."""
MANY = 16
"""The fewest models for figures of single records."""
SIDE = 4
"""The fewest models on each side for a record to be tested."""
FALSE_DISCOVERIES = 0.05


def ppv(tpr: float | None, rate: float = float(RATE), prior: float = PRIOR) -> float | None:
    """The precision of an attack, if a share `prior` of the records are members."""
    if tpr is None:
        return None
    return prior * tpr / (prior * tpr + (1 - prior) * rate)


@dataclass(frozen=True)
class Agreement:
    """Whether two halves of the models, scored separately, flag the same records."""

    value: float
    """Jaccard index of the records flagged by the models trained on them."""
    chance: float
    """The expected index of as many random flags."""
    untrained: float
    """The same index for the models not trained on the record: difficulty, not exposure."""


def agreement(first: Scored, second: Scored) -> Agreement | None:
    """The overlap of the records that either half flags; None if a half flags fewer than 10."""
    one, other = _flagged(first, first.included), _flagged(second, second.included)
    if min(one.sum(), other.sum()) < FLAGGED:
        return None
    a, b = float(one.mean()), float(other.mean())
    untrained = _jaccard(_flagged(first, first.excluded), _flagged(second, second.excluded))
    return Agreement(_jaccard(one, other), a * b / (a + b - a * b), untrained)


def _flagged(half: Scored, side: Bools) -> Bools:
    """(n,): records above the threshold of 1 % FPR in at least half of the models on this side of them."""
    above = half.scores > half.roc.threshold(RATE).cut
    models = side.sum(axis=0)
    return np.asarray((2 * (above & side).sum(axis=0) >= models) & (models > 0))


def _jaccard(one: Bools, other: Bools) -> float:
    union = int((one | other).sum())
    return int((one & other).sum()) / union if union else 0.0


def records_exposed(phi: Floats, scored: Scored) -> tuple[int, int] | None:
    """Records whose rescaled logit is higher in the models trained on them, and how many were tested.

    A one-sided t test with pooled variance for every record that has 4 models on each side, at a false
    discovery rate of 5 % (Benjamini and Hochberg 1995). A record without spread is no evidence. None below 16
    models.
    """
    if scored.models < MANY:
        return None
    n1, n0 = scored.included.sum(axis=0), scored.excluded.sum(axis=0)
    tested = (n1 >= SIDE) & (n0 >= SIDE)
    included, excluded = scored.included[:, tested], scored.excluded[:, tested]
    phi, n1, n0 = phi[:, tested], n1[tested], n0[tested]
    mean_in, mean_out = (phi * included).sum(axis=0) / n1, (phi * excluded).sum(axis=0) / n0
    off = np.where(included, phi - mean_in, np.where(excluded, phi - mean_out, 0.0))
    freedom = n1 + n0 - 2
    variance = (off * off).sum(axis=0) / freedom
    flat = variance <= (RESOLUTION * np.maximum(np.abs(mean_out), 1)) ** 2
    error = np.sqrt(np.where(flat, 1.0, variance) * (1 / n1 + 1 / n0))
    p = np.where(flat, 1.0, stats.t.sf((mean_in - mean_out) / error, freedom))
    return _discoveries(p), int(tested.sum())


def _discoveries(p: Floats) -> int:
    """The number of rejections of Benjamini and Hochberg's step-up rule."""
    passed = np.sort(p) <= FALSE_DISCOVERIES * np.arange(1, len(p) + 1) / max(len(p), 1)
    return int(np.flatnonzero(passed)[-1]) + 1 if passed.any() else 0


def record_tpr_p99(scored: Scored) -> float | None:
    """The 99th percentile over records of the share of the models trained on a record that reveal it.

    At the pooled threshold of 1 % FPR. Null below 16 models, where the share is mostly chance, and with too
    few non-members for that rate.
    """
    if scored.models < MANY or scored.roc.shortage(RATE) is not None:
        return None
    called = scored.roc.threshold(RATE).called(scored.scores)
    trained = scored.included.sum(axis=0)
    rates = (called * scored.included).sum(axis=0)[trained > 0] / trained[trained > 0]
    return float(np.quantile(rates, 0.99))
