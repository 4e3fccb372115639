"""Leave-one-model-out moments: what the other models say about a record, for every target."""

from dataclasses import dataclass

import numpy as np

from harness.attacks.base import Bools, Floats

RESOLUTION = float(np.finfo(np.float32).eps)
"""Relative step of the stored logits; a spread below it is rounding, not a spread."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations from that mean: (M, n), or (n,) for one target."""

    count: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Moments":
        """Of no values."""
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def __getitem__(self, target: int) -> "Moments":
        return Moments(self.count[target], self.mean[target], self.squares[target])

    def __setitem__(self, target: int, row: "Moments") -> None:
        self.count[target], self.mean[target] = row.count, row.mean
        self.squares[target] = row.squares

    def pooled_variance(self) -> Floats:
        """The variance within records, pooled over all records of a target.

        It is 1 for a target of which no record has two values: the scale is then unknown.
        """
        freedom = np.maximum(self.count - 1, 0).sum(axis=-1, keepdims=True)
        squares = self.squares.sum(axis=-1, keepdims=True)
        return np.where(freedom > 0, squares / np.maximum(freedom, 1), 1.0)

    def variance(self, fixed: bool) -> Floats:
        """Each record's unbiased variance, or where `fixed` the pooled one for all.

        A record with fewer than two values gets the pooled one. Never below what float32 resolves.
        """
        own = self.squares / np.maximum(self.count - 1, 1)
        variance = np.where((self.count < 2) | fixed, self.pooled_variance(), own)
        return np.maximum(variance, (RESOLUTION * np.maximum(np.abs(self.mean), 1)) ** 2)

    def z_scores(self, values: Floats, fixed: bool) -> Floats:
        """Distance from the mean in standard deviations; 0 where there is no mean."""
        scale = np.sqrt(self.variance(fixed))
        return np.where(self.count > 0, (values - self.mean) / scale, 0.0)


def leave_one_out(values: Floats, chosen: Bools) -> Moments:
    """Moments of column i over the chosen rows other than m, for every m.

    Row m of the answer is merged from the rows before m and the rows after m (Chan, Golub and
    LeVeque 1983). Nothing is ever taken out of a sum again, so there is no cancellation, and row m
    of `values` and of `chosen` does not enter row m of the answer, not even by rounding.

    Args:
        values: (M, n)
        chosen: (M, n): which values count.

    Returns:
        (M, n) moments; count 0, mean 0 where no other row is chosen.
    """
    moments = Moments.none(values.shape)
    before = after = Moments.none(values.shape[1:])
    for m in range(len(values)):
        moments[m] = before
        before = _include(before, values[m], chosen[m])
    for m in reversed(range(len(values))):
        moments[m] = _merge(moments[m], after)
        after = _include(after, values[m], chosen[m])
    return moments


def _include(old: Moments, values: Floats, chosen: Bools) -> Moments:
    """The moments with one more value where it is chosen (Welford 1962)."""
    step = np.where(chosen, values - old.mean, 0.0)
    count = old.count + chosen
    mean = old.mean + step / np.maximum(count, 1)
    return Moments(count, mean, old.squares + step * (values - mean))


def _merge(a: Moments, b: Moments) -> Moments:
    """The moments of two sets of values together; either may be empty."""
    count = a.count + b.count
    share = b.count / np.maximum(count, 1)
    apart = b.mean - a.mean
    return Moments(count, a.mean + apart * share, a.squares + b.squares + apart**2 * share * a.count)
