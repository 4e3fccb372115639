"""Leave-one-model-out moments: statistics of the other models on a record, for every target."""

from dataclasses import dataclass

import numpy as np

from harness.leakage.matrices import Bools, Floats

RESOLUTION = float(np.finfo(np.float32).eps)
"""Relative precision of the stored logits; a smaller spread is rounding."""
BLOCK = 4096
"""Records at a time: their state between two models stays in the fastest cache."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations from that mean: (M, n), or (n,) for one target."""

    count: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Moments":
        """The moments of no values."""
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def __getitem__(self, index: int | tuple[slice, slice]) -> "Moments":
        """The moments of one target, or of some records of all: views, which can be changed in place."""
        return Moments(self.count[index], self.mean[index], self.squares[index])

    def __setitem__(self, target: int, row: "Moments") -> None:
        self.count[target], self.mean[target] = row.count, row.mean
        self.squares[target] = row.squares

    def include(self, values: Floats, weight: Floats) -> None:
        """Add a value to each record if its weight is 1, and none if it is 0 (Welford 1962)."""
        step = values - self.mean
        step *= weight
        np.add(self.count, weight, out=self.count)
        np.add(self.mean, step / np.maximum(self.count, 1), out=self.mean)
        step *= values - self.mean
        np.add(self.squares, step, out=self.squares)

    def merge(self, other: "Moments") -> None:
        """Add all values of other moments, of which either may be empty (Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean - self.mean
        np.add(self.mean, apart * share, out=self.mean)
        apart *= apart
        apart *= share
        apart *= self.count
        np.add(self.squares, other.squares, out=self.squares)
        np.add(self.squares, apart, out=self.squares)
        self.count[...] = count

    def pooled_variance(self) -> Floats:
        """The variance within records, pooled over all records of a target.

        It is 1 for a target of which no record has two values: the scale is then unknown.
        """
        freedom = np.maximum(self.count - 1, 0).sum(axis=-1, keepdims=True)
        squares = self.squares.sum(axis=-1, keepdims=True)
        return np.where(freedom > 0, squares / np.maximum(freedom, 1), 1.0)

    def variance(self, fixed: bool) -> Floats:
        """Each record's unbiased variance, or if `fixed` the pooled one for all.

        A record with fewer than two values gets the pooled one. Never below the precision of float32.
        """
        variance = self.squares / np.maximum(self.count - 1, 1)
        few = self.count < 2
        if fixed or few.any():
            variance = np.where(few | fixed, self.pooled_variance(), variance)
        least = np.maximum(np.abs(self.mean), 1)
        least *= RESOLUTION
        least *= least
        return np.maximum(variance, least, out=variance)

    def z_scores(self, values: Floats, fixed: bool) -> Floats:
        """Distance from the mean in standard deviations; 0 without a mean."""
        scale = np.sqrt(self.variance(fixed))
        return np.where(self.count > 0, (values - self.mean) / scale, 0.0)


def leave_one_out(values: Floats, chosen: Bools) -> Moments:
    """Moments of column i over the chosen rows other than m, for every m.

    Row m of the result is merged from the rows before m and the rows after m. Nothing is ever
    subtracted from a sum, so there is no cancellation, and row m of `values` and of `chosen` does not
    enter row m of the result, not even by rounding.

    Args:
        values: (M, n)
        chosen: (M, n): which values count.

    Returns:
        (M, n) moments; count 0, mean 0 if no other row is chosen.
    """
    moments = Moments.none(values.shape)
    every = slice(None)
    for start in range(0, values.shape[1], BLOCK):
        some = every, slice(start, start + BLOCK)
        _fill(moments[some], values[some], chosen[some].astype(np.float64))
    return moments


def _fill(moments: Moments, values: Floats, weights: Floats) -> None:
    """Compute a block of records, into empty moments."""
    before, after = Moments.none(values.shape[1:]), Moments.none(values.shape[1:])
    for m in range(len(values)):
        moments[m] = before
        before.include(values[m], weights[m])
    for m in reversed(range(len(values))):
        moments[m].merge(after)
        after.include(values[m], weights[m])


def leave_one_out_log_mean(logs: Floats, chosen: Bools) -> Floats:
    """log of the mean of exp(column i) over the chosen rows other than m, for every m.

    In logarithms throughout: a mean of probabilities below 1e-308 does not underflow. Row m of `logs` and of
    `chosen` does not enter row m of the result, as in `leave_one_out`.

    Args:
        logs: (M, n)
        chosen: (M, n): which values count.

    Returns:
        (M, n); -inf if no other row is chosen.
    """
    sums = np.empty(logs.shape)
    for start in range(0, logs.shape[1], BLOCK):
        some = slice(None), slice(start, start + BLOCK)
        _fill_log_sums(sums[some], np.where(chosen[some], logs[some], -np.inf))
    counts = chosen.sum(axis=0) - chosen.astype(np.int64)
    return np.asarray(sums - np.log(np.maximum(counts, 1)))


def _fill_log_sums(sums: Floats, logs: Floats) -> None:
    """log of the sum of exp over all other rows, from the rows before and the rows after."""
    before, after = (np.full(logs.shape[1], -np.inf) for _ in range(2))
    for m in range(len(logs)):
        sums[m] = before
        np.logaddexp(before, logs[m], out=before)
    for m in reversed(range(len(logs))):
        np.logaddexp(sums[m], after, out=sums[m])
        np.logaddexp(after, logs[m], out=after)
