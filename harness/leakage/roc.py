"""The pooled ROC: corner points in counts, and the TPR of the randomised test of exact size f."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from harness.leakage.matrices import Bools, Floats, Ints
from workloads.errors import BenchError

RATES = {
    "0.1": Fraction(1, 10),
    "0.01": Fraction(1, 100),
    "0.001": Fraction(1, 1_000),
    "0.0001": Fraction(1, 10_000),
}
"""The reported false positive rates, exactly: whether a corner is at a rate must not depend on rounding."""

FEWEST = 10
"""False positives that a rate must have for its TPR to be resolved."""
POINTS = 300
"""Points of a drawn curve, at most."""
BETWEEN = np.logspace(-5, 0, 60)
"""FPRs of extra points between the corners of a drawn curve: a chord is curved on logarithmic axes."""


@dataclass(frozen=True)
class Threshold:
    """A randomised test: positive above the threshold, and with probability `share` at it."""

    cut: float
    share: float

    def called(self, scores: Floats) -> Floats:
        """The probability of each score to be classified as a member."""
        called = (scores > self.cut).astype(np.float64)
        called[scores == self.cut] = self.share
        return called


@dataclass(frozen=True)
class Roc:
    """Corner points of the ROC of all (target, record) pairs, one per distinct score from the highest down.

    One threshold for all targets, so this is the attacker who calibrates on shadow models and attacks many
    targets: single targets may have a higher or lower FPR. Joined by straight lines the corners are the
    randomised tests (Fawcett 2006), real attacks of every size; without ties they differ from the step
    function by at most one non-member.
    """

    fp: Ints
    """(corners,): false positives, from 0 to all non-members."""
    tp: Ints
    """(corners,): true positives."""
    levels: Floats
    """(corners - 1,): the score between one corner and the next."""

    @classmethod
    def of(cls, scores: Floats, members: Bools) -> "Roc":
        """Of pairs of any shape, pooled."""
        order, ends = _descending(scores)
        tp = _from_zero(np.cumsum(members.ravel()[order], dtype=np.int64)[ends])
        return cls(_from_zero(ends + 1) - tp, tp, scores.ravel()[order[ends]])

    @classmethod
    def of_calibrated(cls, ranks: Ints, members: Bools) -> "Roc":
        """The same from calibrated ranks, which are counts and need no sorting."""
        inside, outside = (np.bincount(ranks[side]) for side in (members, ~members))
        size = max(len(inside), len(outside))
        inside, outside = (np.pad(each, (0, size - len(each))) for each in (inside, outside))
        levels = np.flatnonzero(inside + outside)
        fp, tp = (_from_zero(np.cumsum(each[levels])) for each in (outside, inside))
        return cls(fp, tp, -levels.astype(np.float64))

    @property
    def n_members(self) -> int:
        """Pooled over targets."""
        return int(self.tp[-1])

    @property
    def n_nonmembers(self) -> int:
        """Pooled over targets."""
        return int(self.fp[-1])

    @property
    def tpr(self) -> Floats:
        """(corners,)"""
        return self.tp / self.n_members

    @property
    def fpr(self) -> Floats:
        """(corners,)"""
        return self.fp / self.n_nonmembers

    def at(self, rate: Fraction) -> float:
        """The TPR of the randomised test of exact size `rate`."""
        corner = self._last_within(rate)
        if corner == len(self.levels):
            return 1.0
        rise = int(self.tp[corner + 1] - self.tp[corner])
        return (int(self.tp[corner]) + rise * self._share(corner, rate)) / self.n_members

    def threshold(self, rate: Fraction) -> Threshold:
        """The randomised test of exact size `rate`, with the score of the first non-member beyond."""
        corner = self._last_within(rate)
        if corner == len(self.levels):
            return Threshold(float(self.levels[-1]), 1.0)
        return Threshold(float(self.levels[corner]), self._share(corner, rate))

    def tied(self, rate: Fraction) -> float:
        """The share of non-members at the threshold of the randomised test; 0 at a corner."""
        corner = self._last_within(rate)
        if corner == len(self.levels) or self._share(corner, rate) == 0:
            return 0.0
        return int(self.fp[corner + 1] - self.fp[corner]) / self.n_nonmembers

    def shortage(self, rate: Fraction) -> str | None:
        """Why there are too few non-members for this rate; None if there are enough."""
        needed = -(-FEWEST * rate.denominator // rate.numerator)
        if self.n_nonmembers >= needed:
            return None
        return f"needs N >= {needed} non-members, has {self.n_nonmembers}"

    def drawn(self, points: int = POINTS) -> dict[str, list[float]]:
        """`fpr` and `tpr` of at most `points` points, both ends included, to be joined by straight lines.

        Corners are chosen evenly along FPR and TPR, on linear and on logarithmic axes, so that the curve
        keeps its shape on both; interpolated points follow the chords on logarithmic axes.
        """
        if points < len(BETWEEN) + 10:
            raise BenchError(
                f"points={points} are too few for a ROC; give at least {len(BETWEEN) + 10}: "
                f"{len(BETWEEN)} of them are between corners",
                field="points",
                value=points,
                allowed=len(BETWEEN) + 10,
            )
        kept = self._thinned(points - len(BETWEEN))
        fpr, tpr = self.fpr, self.tpr
        between = BETWEEN[~np.isin(BETWEEN, fpr)]
        x = np.concatenate([fpr[kept], between])
        y = np.concatenate([tpr[kept], np.interp(between, fpr, tpr)])
        order = np.lexsort((y, x))
        return {"fpr": x[order].tolist(), "tpr": y[order].tolist()}

    def _last_within(self, rate: Fraction) -> int:
        """The last corner whose FPR is at most `rate`."""
        called = rate.numerator * self.n_nonmembers // rate.denominator
        return int(np.searchsorted(self.fp, called, side="right")) - 1

    def _share(self, corner: int, rate: Fraction) -> float:
        """The position of `rate` between this corner and the next, in [0, 1)."""
        before, after = int(self.fp[corner]), int(self.fp[corner + 1])
        return float((rate * self.n_nonmembers - before) / (after - before))

    def _thinned(self, points: int) -> Ints:
        """The indices of at most this many corners, both ends included."""
        corners = len(self.fp)
        if corners <= points:
            return np.arange(corners)
        each = (points - 2) // 4
        picks = [_even(axis.astype(np.float64), each) for axis in (self.fp, self.tp)]
        picks += [_even(np.log(np.maximum(axis, 0.5)), each) for axis in (self.fp, self.tp)]
        return np.unique(np.concatenate([[0], *picks, [corners - 1]]))


def calibrated(scores: Floats, members: Bools) -> Ints:
    """Twice the false positives, mid-ranked, with each score as the threshold; lower means more confident.

    For pooled pairs of any shape, the pair itself included. It is comparable between attacks, and within one
    it changes neither the AUC of a target nor any TPR.
    """
    order, ends = _descending(scores)
    outside = _from_zero(np.cumsum(~members.ravel()[order], dtype=np.int64)[ends])
    sizes = np.diff(_from_zero(ends + 1))
    ranks = np.empty(scores.size, dtype=np.int64)
    ranks[order] = np.repeat(outside[:-1] + outside[1:], sizes)
    return ranks.reshape(scores.shape)


def _descending(scores: Floats) -> tuple[Ints, Ints]:
    """The descending order of all scores, and where each group of ties ends."""
    order = np.argsort(-scores.ravel())
    ranked = scores.ravel()[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), scores.size - 1)
    return order, ends


def _from_zero(counts: Ints) -> Ints:
    return np.concatenate([[0], counts])


def _even(axis: Floats, count: int) -> Ints:
    """The indices at which an increasing axis last reaches `count` evenly spaced values."""
    marks = np.linspace(axis[0], axis[-1], count)
    return np.searchsorted(axis, marks, side="right") - 1
