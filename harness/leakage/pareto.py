"""Pareto fronts: what is optimal, by how much, and with what uncertainty; pure functions.

A point is (leakage, accuracy): less of the first and more of the second is better. Every front is computed
here: that of the view, when results are collected; those of figures and tables; and that of the page.

Between two measured points nothing was measured. What may be claimed there:

step      At a cap on leakage one can always release the best model measured at or below it. This holds for
          every axis.
mixture   One can also toss a coin and release one of two models. Accuracy, and a leakage that is a mean over
          released models (the AUC here), are then on the straight line between the two points, so the upper
          hull is attainable. Not for the TPR at a fixed FPR: an attacker who sees which model was released
          spends the false positives where they pay most, and gets more than the mean of the two rates. Nor
          for epsilon: the worse of the two guarantees holds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Point = tuple[float, float]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CONFIDENCE = 0.95
"""The level of the views' intervals, and of the band around a hypervolume."""
DRAWS, PIECES = 2000, 20


def find_front(points: Sequence[Point]) -> list[int]:
    """The indices of the Pareto-optimal points; equal points are on the front together."""
    found: list[int] = []
    best = -math.inf
    for position in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        accuracy = points[position][1]
        if accuracy > best or (found and points[position] == points[found[-1]]):
            found.append(position)
            best = accuracy
    return sorted(found)


def find_undominated(costs: Sequence[Sequence[float]]) -> list[int]:
    """The same for any number of axes, on all of which less is better (negate an accuracy)."""
    points = np.array(costs, dtype=np.float64)
    return [i for i, point in enumerate(points) if not _any_dominates(points, point)]


def find_beaten(points: Sequence[Point], others: Sequence[Point]) -> Bools:
    """Which of the points are dominated by one of the others: nowhere worse, and better on one axis."""
    # Along a front the accuracy rises, so the last point that leaks no more is the most accurate of those.
    front = sorted({others[position] for position in find_front(others)})
    if not front or not points:
        return np.zeros(len(points), dtype=np.bool_)
    (leakage, accuracy), (x, y) = np.array(front).T, np.array(points).T
    place = np.searchsorted(leakage, x, side="right") - 1
    better = (accuracy[place] > y) | ((accuracy[place] == y) & (leakage[place] < x))
    return np.asarray((place >= 0) & better)


def _any_dominates(others: Floats, point: Floats) -> bool:
    """Whether one of the others is nowhere worse, and better somewhere."""
    return bool(((others <= point).all(axis=1) & (others < point).any(axis=1)).any())


@dataclass(frozen=True)
class Box:
    """A point with the intervals of its two numbers; without an interval both ends are the number."""

    leakage: tuple[float, float, float]
    """Low end, value, high end."""
    accuracy: tuple[float, float, float]

    @property
    def point(self) -> Point:
        """The values."""
        return self.leakage[1], self.accuracy[1]

    @property
    def best(self) -> Point:
        """The best corner of its intervals."""
        return self.leakage[0], self.accuracy[2]

    @property
    def worst(self) -> Point:
        """The worst corner of its intervals."""
        return self.leakage[2], self.accuracy[0]


def find_near_front(boxes: Sequence[Box]) -> list[int]:
    """The indices of points off the front that are indistinguishable from it by their intervals.

    A point is significantly worse if another one, at its worst, dominates it at its best.
    """
    front = set(find_front([box.point for box in boxes]))
    worst, best = _costs([box.worst for box in boxes]), _costs([box.best for box in boxes])
    return [i for i in range(len(boxes)) if i not in front and not _any_dominates(worst, best[i])]


def _costs(points: Sequence[Point]) -> Floats:
    """Points as costs: less of both is better."""
    return np.array([(leakage, -accuracy) for leakage, accuracy in points]).reshape(-1, 2)


def hypervolume(
    leakage: ArrayLike, accuracy: ArrayLike, reference: Point, judged: ArrayLike | None = None
) -> Floats:
    """The area that points dominate up to the reference point (Zitzler and Thiele 1999).

    The last axis is over the points of one front; one area for each of the others. Points worse than the
    reference on either axis add nothing. With `judged` the point released under a cap is the best by that
    number, and its accuracy counts, so that nothing is selected by the reported accuracy.
    """
    x = np.minimum(np.asarray(leakage, dtype=np.float64), reference[0])
    y = np.maximum(np.asarray(accuracy, dtype=np.float64), reference[1])
    value = y if judged is None else np.broadcast_to(np.asarray(judged, dtype=np.float64), y.shape)
    order = np.argsort(x, axis=-1, kind="stable")
    x, y, value = (np.take_along_axis(each, order, -1) for each in (x, y, value))
    best = value == np.maximum.accumulate(value, axis=-1)
    place = np.maximum.accumulate(np.where(best, np.arange(x.shape[-1]), 0), axis=-1)
    reached = np.take_along_axis(y, place, -1) - reference[1]
    widths = np.diff(x, axis=-1, append=np.full((*x.shape[:-1], 1), reference[0]))
    return np.asarray((reached * widths).sum(axis=-1))


def mean_offer(
    leakage: ArrayLike, accuracy: ArrayLike, chance: float, judged: ArrayLike | None = None
) -> Floats:
    """The accuracy attainable under a cap on leakage, mean over all caps from guessing to 1.

    This is the hypervolume with the reference point (leakage 1, accuracy 0) as a share of the whole: 1 is a
    perfect model that leaks nothing. Leakage below guessing counts as guessing; under a cap that no point
    meets, the accuracy is 0.
    """
    seen = np.maximum(np.asarray(leakage, dtype=np.float64), chance)
    return hypervolume(seen, accuracy, (1.0, 0.0), judged) / (1 - chance)


def mean_offer_band(
    boxes: Sequence[Box], models: Sequence[int], chance: float, judged: Sequence[float] | None = None
) -> Point | None:
    """The 95 % band of `mean_offer` over repetitions with other models; None for single models.

    Quantiles of the areas of fronts resampled from the intervals of their points, each selected by `judged`
    as before.
    """
    if not boxes or min(models) < 2:
        return None
    generator = np.random.default_rng(0)
    leakage = _redraw([box.leakage for box in boxes], models, generator)
    accuracy = _redraw([box.accuracy for box in boxes], models, generator)
    tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    # In chunks: all draws at once would take gigabytes for thousands of points.
    pieces = zip(np.array_split(leakage, PIECES), np.array_split(accuracy, PIECES), strict=True)
    areas = np.concatenate([mean_offer(*piece, chance, judged) for piece in pieces])
    low, high = np.quantile(areas, tails)
    return float(low), min(1.0, float(high))


def _redraw(
    intervals: Sequence[tuple[float, float, float]], models: Sequence[int], generator: np.random.Generator
) -> Floats:
    """Every number resampled `DRAWS` times: Student's t over models, with the width of its interval to each
    side."""
    low, value, high = np.array(intervals, dtype=np.float64).T
    freedom = np.array(models) - 1
    deviates = generator.standard_t(freedom, size=(DRAWS, len(freedom)))
    deviates /= stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
    return np.asarray(value + deviates * np.where(deviates < 0, value - low, high - value))


@dataclass(frozen=True)
class Mixture:
    """The measured point to release under a cap: `left`, or `right` with probability `share`."""

    left: int
    right: int
    share: float = 0.0


def find_offer(front: Sequence[Point], cap: float, mixed: bool) -> Mixture | None:
    """The best accuracy at no more leakage than `cap`; None if even the least leaky point leaks more.

    `front` is sorted by leakage. With `mixed` two points may be released at random; the module's docstring
    states for which axes that is valid.
    """
    kept = find_hull(front) if mixed else range(len(front))
    below = [position for position in kept if front[position][0] <= cap]
    if not below:
        return None
    left = below[-1]
    beyond = [position for position in kept if front[position][0] > cap]
    if not mixed or not beyond or front[left][0] == cap:
        return Mixture(left, left)
    here, there = front[left][0], front[beyond[0]][0]
    return Mixture(left, beyond[0], (cap - here) / (there - here))


def find_hull(front: Sequence[Point]) -> list[int]:
    """The indices of a front, sorted by leakage, that no mixture of two others beats (Andrew 1979)."""
    kept: list[int] = []
    for position, (x, y) in enumerate(front):
        while len(kept) > 1:
            (x0, y0), (x1, y1) = front[kept[-2]], front[kept[-1]]
            if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                break
            kept.pop()
        if not kept or front[kept[-1]] != (x, y):
            kept.append(position)
    return kept
