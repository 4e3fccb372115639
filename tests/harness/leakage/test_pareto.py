"""Frontier mathematics against slow and obvious references."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.leakage.pareto import (
    Box,
    Point,
    find_beaten,
    find_front,
    find_hull,
    find_near_front,
    find_offer,
    find_undominated,
    hypervolume,
    mean_offer,
    mean_offer_band,
)

STEPS = 5
GRID = st.integers(0, STEPS).map(lambda n: n / STEPS)
"""Few values, so that ties are common."""
POINTS = st.lists(st.tuples(GRID, GRID), max_size=12)
INTERVALS = st.tuples(GRID, GRID, GRID).map(lambda ends: tuple(sorted(ends)))
BOXES = st.lists(st.builds(Box, INTERVALS, INTERVALS), max_size=8)


def beats(one: Point, other: Point) -> bool:
    return one != other and one[0] <= other[0] and one[1] >= other[1]


@given(POINTS)
def test_the_front_holds_the_points_that_no_other_dominates(points: list[Point]) -> None:
    expected = [i for i, point in enumerate(points) if not any(beats(other, point) for other in points)]
    assert find_front(points) == expected


def test_equal_points_are_on_the_front_together() -> None:
    assert find_front([(0.5, 0.9), (0.5, 0.9), (0.6, 0.9), (0.5, 0.8)]) == [0, 1]


@given(POINTS)
def test_on_two_axes_undominated_is_the_front(points: list[Point]) -> None:
    assert find_undominated([(x, -y) for x, y in points]) == find_front(points)


@given(st.lists(st.tuples(GRID, GRID, GRID), max_size=10))
def test_a_third_axis_adds_what_is_cheapest_among_the_leaky(points: list[tuple[float, ...]]) -> None:
    """A point is undominated where it is on the front of those that cost no more than it, and vice versa."""
    expected = []
    for i, (x, y, cost) in enumerate(points):
        rivals = [j for j, other in enumerate(points) if other[2] <= cost]
        front = [rivals[k] for k in find_front([(points[j][0], -points[j][1]) for j in rivals])]
        cheaper = [j for j in rivals if points[j][:2] == (x, y) and points[j][2] < cost]
        if i in front and not cheaper:
            expected.append(i)
    assert find_undominated(points) == expected


@given(BOXES)
def test_near_the_front_is_what_may_be_on_it(boxes: list[Box]) -> None:
    """The reference puts every point at its best and all others at their worst, and computes the front."""
    expected = []
    for i, box in enumerate(boxes):
        world = [box.best if j == i else other.worst for j, other in enumerate(boxes)]
        if i in find_front(world) and i not in find_front([each.point for each in boxes]):
            expected.append(i)
    assert find_near_front(boxes) == expected


def test_without_intervals_nothing_is_near_the_front() -> None:
    exact = [Box((x, x, x), (y, y, y)) for x, y in [(0.5, 0.9), (0.6, 0.9), (0.6, 0.95)]]
    assert find_near_front(exact) == []


@given(POINTS, GRID, GRID)
def test_the_hypervolume_is_the_number_of_dominated_squares(points: list[Point], x: float, y: float) -> None:
    middles = [(i + 0.5) / STEPS for i in range(STEPS)]
    squares = [(a, b) for a in middles for b in middles if a < x and b > y]
    counted = sum(any(p[0] <= a and p[1] >= b for p in points) for a, b in squares)
    found = hypervolume([p[0] for p in points], [p[1] for p in points], (x, y))
    assert found == pytest.approx(counted / STEPS**2, abs=1e-12)


@given(POINTS, st.sampled_from([0.0, 0.2, 0.4]))
def test_the_share_is_the_mean_accuracy_over_all_caps(points: list[Point], chance: float) -> None:
    caps = [(i + 0.5) / STEPS for i in range(STEPS) if (i + 0.5) / STEPS > chance]
    best = [max((y for x, y in points if max(x, chance) <= cap), default=0.0) for cap in caps]
    found = mean_offer([x for x, _ in points], [y for _, y in points], chance)
    assert found == pytest.approx(sum(best) / len(caps), abs=1e-12)


def test_hypervolumes_of_many_fronts_at_once() -> None:
    x, y = np.random.default_rng(1).random((2, 7, 4))
    together = hypervolume(x, y, (1.0, 0.0))
    assert together.tolist() == [float(hypervolume(*front, (1.0, 0.0))) for front in zip(x, y, strict=True)]


def measured(means: list[Point], models: int, generator: np.random.Generator) -> list[Box]:
    """Points of this many models each, with the t-intervals of the views."""
    half = 2.364624 / np.sqrt(models)  # Student's 97.5 % quantile for eight models
    boxes = []
    for leakage, accuracy in means:
        drawn = generator.normal((leakage, accuracy), 0.03, size=(models, 2))
        middle, spread = drawn.mean(axis=0), half * drawn.std(axis=0, ddof=1)
        ends = np.stack([middle - spread, middle, middle + spread]).T.tolist()
        boxes.append(Box(tuple(ends[0]), tuple(ends[1])))
    return boxes


@pytest.mark.slow
@pytest.mark.parametrize(
    "means", [[(0.6, 0.9)], [(0.52, 0.80), (0.55, 0.86), (0.60, 0.88), (0.70, 0.95), (0.62, 0.87)]]
)
def test_the_band_has_its_nominal_coverage(means: list[Point]) -> None:
    truth = float(mean_offer([x for x, _ in means], [y for _, y in means], 0.5))
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        band = mean_offer_band(measured(means, 8, generator), [8] * len(means), 0.5)
        assert band is not None
        held += band[0] <= truth <= band[1]
    assert 181 <= held <= 199, "95 % of 200, give or take three standard deviations"


def test_the_band_is_the_same_every_time_and_wants_more_than_one_model() -> None:
    boxes = measured([(0.55, 0.9), (0.6, 0.95)], 8, np.random.default_rng(3))
    assert mean_offer_band(boxes, [8, 8], 0.5) == mean_offer_band(boxes, [8, 8], 0.5)
    assert mean_offer_band(boxes, [8, 1], 0.5) is None
    assert mean_offer_band([], [], 0.5) is None


FRONTS = POINTS.map(lambda points: sorted(points[i] for i in find_front(points)))


@given(FRONTS, GRID)
def test_a_step_is_the_best_point_under_the_cap(front: list[Point], cap: float) -> None:
    found = find_offer(front, cap, mixed=False)
    best = max((y for x, y in front if x <= cap), default=None)
    assert (None if found is None else front[found.left][1]) == best
    assert found is None or found.share == 0


@given(FRONTS, st.integers(0, 4 * STEPS).map(lambda n: n / (4 * STEPS)))
def test_a_mixture_is_the_best_of_all_pairs_under_the_cap(front: list[Point], cap: float) -> None:
    found = find_offer(front, cap, mixed=True)
    below = [(x, y) for x, y in front if x <= cap]
    pairs = itertools.product(below, [(x, y) for x, y in front if x > cap])
    lines = [y0 + (y1 - y0) * (cap - x0) / (x1 - x0) for (x0, y0), (x1, y1) in pairs]
    best = max([*lines, *(y for _, y in below)], default=None)
    if found is None or best is None:
        assert found is None and best is None
        return
    left, right = front[found.left], front[found.right]
    assert (1 - found.share) * left[1] + found.share * right[1] == pytest.approx(best, abs=1e-12)
    assert (1 - found.share) * left[0] + found.share * right[0] <= cap + 1e-12


def test_the_hull_leaves_out_what_a_coin_toss_beats() -> None:
    assert find_hull([(0.5, 0.6), (0.6, 0.65), (0.7, 0.9), (0.9, 0.95)]) == [0, 2, 3]
    assert find_hull([(0.5, 0.6), (0.6, 0.7), (0.7, 0.8)]) == [0, 2], "on the line is not beyond it"
    assert len(find_hull([(0.5, 0.6), (0.5, 0.6), (0.7, 0.8)])) == 2
    assert find_hull([]) == []


@given(points=POINTS, others=POINTS)
def test_beaten_is_what_another_dominates(points: list[Point], others: list[Point]) -> None:
    assert find_beaten(points, others).tolist() == [
        any(beats(each, point) for each in others) for point in points
    ]
    assert [i for i, beaten in enumerate(find_beaten(points, points)) if not beaten] == find_front(points)
