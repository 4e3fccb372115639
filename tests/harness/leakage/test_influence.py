"""Influence values against derivatives of the figures, slow references, and facts of the specification."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from harness.leakage.influence import (
    Figure,
    Scored,
    auc,
    balanced_accuracy,
    call_highest,
    mean_gap,
    one_sided,
    placements,
    tpr,
)
from harness.leakage.matrices import Bools, Floats
from harness.leakage.roc import Roc
from tests.harness.leakage.test_roc import gaussian_grid
from workloads.errors import BenchError

QUARTER: Figure = partial(tpr, rate=Fraction(1, 4))
FIGURES = [auc, QUARTER, balanced_accuracy]
TIED = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf]) | st.floats(-2, 2)


@st.composite
def judged(draw: st.DrawFn) -> Scored:
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 9)))
    members = draw(hnp.arrays(np.bool_, shape))
    members[:, 0], members[:, 1] = True, False
    return Scored(draw(hnp.arrays(np.float64, shape, elements=TIED)), members)


def slow_auc(scores: Floats, members: Bools) -> float:
    pairs = [(a, b) for a in scores[members] for b in scores[~members]]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


@pytest.mark.parametrize(
    ("figure", "value"), [(auc, 0.7916666667), (QUARTER, 0.7083333333), (balanced_accuracy, 0.75)]
)
def test_facts(figure: Figure, value: float, small: Scored) -> None:
    assert figure(small).value == pytest.approx(value, abs=5e-11)


@given(judged())
@settings(max_examples=100, derandomize=True)
def test_auc_and_placements_equal_all_pairs(scored: Scored) -> None:
    found = auc(scored)
    each = [slow_auc(*pair) for pair in zip(scored.scores, scored.members, strict=True)]
    assert found.value == pytest.approx(np.mean(each), abs=1e-12)
    np.testing.assert_allclose(found.per_target, each, atol=1e-12)
    scores, members = scored.scores[0], scored.members[0]
    placed, _ = placements(scores, members)
    for i, inside in enumerate(members):
        rivals = scores[~members] if inside else scores[members]
        better = scores[i] > rivals if inside else rivals > scores[i]
        assert placed[i] == pytest.approx((better + (rivals == scores[i]) / 2).mean())


@given(judged())
@settings(max_examples=60, derandomize=True)
def test_balanced_accuracy_calls_as_many_as_there_are_members(scored: Scored) -> None:
    accuracies = []
    for scores, members in zip(scored.scores, scored.members, strict=True):
        called = call_highest(scores, int(members.sum()))
        assert called.sum() == pytest.approx(members.sum())
        for one in range(len(scores)):
            for other in range(len(scores)):
                assert scores[one] <= scores[other] or called[one] >= called[other]
                assert scores[one] != scores[other] or called[one] == called[other]
        accuracies.append((1 + called[members].mean() - called[~members].mean()) / 2)
    found = balanced_accuracy(scored)
    assert found.value == pytest.approx(np.mean(accuracies))
    np.testing.assert_allclose(found.per_target, accuracies, atol=1e-12)


@pytest.mark.parametrize("figure", FIGURES)
@given(scored=judged())
@settings(max_examples=40, derandomize=True)
def test_influence_values_cancel_within_a_cell(figure: Figure, scored: Scored) -> None:
    """The estimate is their expectation over the cell's own pairs, so they have no sum."""
    assert figure(scored).values.sum() == pytest.approx(0, abs=1e-12)


def test_a_little_more_weight_on_a_record_moves_the_auc_by_its_influence(masks: Callable[..., Bools]) -> None:
    """The infinitesimal jackknife: every record 40 times, and one of them once more."""
    random, copies = np.random.default_rng(3), 40
    members = masks(random, 1, 400, 200)
    scores = random.standard_normal(members.shape) + members
    found = auc(Scored(scores, members))
    for i in range(0, 400, 13):
        more = np.append(np.tile(np.arange(400), copies), i)
        moved = auc(Scored(scores[:, more], members[:, more])).value
        assert copies * (moved - found.value) == pytest.approx(found.values[0, i], rel=0.03, abs=1e-6)


def test_the_threshold_has_an_error_of_its_own() -> None:
    """Gaussians: the TPR varies with the members called, and by the slope of the ROC with the non-members."""
    scores, members = gaussian_grid(1.0, 20_000)
    found = tpr(Scored(scores, members), Fraction(1, 10))
    cut = stats.norm.isf(0.1)
    value = float(stats.norm.sf(cut - 1))
    slope = float(stats.norm.sf(stats.norm.isf(0.2) - 1) - stats.norm.sf(stats.norm.isf(0.05) - 1)) / 0.15
    expected = value * (1 - value) / 20_000 + slope**2 * 0.1 * 0.9 / 20_000
    assert found.value == pytest.approx(value, abs=1e-4)
    assert (found.values**2).sum() == pytest.approx(expected, rel=2e-3)


@given(judged())
@settings(max_examples=60, derandomize=True)
def test_figures_see_ranks_only(scored: Scored) -> None:
    ranks = stats.rankdata(scored.scores, method="dense").reshape(scored.scores.shape).astype(np.float64)
    for figure in FIGURES:
        one, other = figure(scored), figure(Scored(ranks, scored.members))
        assert one.value == other.value
        np.testing.assert_array_equal(one.values, other.values)


@pytest.mark.parametrize("figure", FIGURES)
def test_records_keep_their_influence_when_they_are_permuted(figure: Figure, small: Scored) -> None:
    order = np.random.default_rng(0).permutation(12)
    one, other = figure(small), figure(Scored(small.scores[:, order], small.members[:, order]))
    assert one.value == pytest.approx(other.value)
    np.testing.assert_allclose(one.values[:, order], other.values, atol=1e-15)


def test_a_rate_of_one_calls_every_record_and_nothing_varies(small: Scored) -> None:
    found = tpr(small, Fraction(1))
    assert found.value == 1 and not found.values.any()


def test_twice_the_rate_stops_at_one(small: Scored) -> None:
    """The slope at 0.8 is taken between 0.4 and 1."""
    roc = Roc.of(small.scores, small.members)
    found = tpr(small, Fraction(4, 5))
    slope = (1 - roc.at(Fraction(2, 5))) / 0.6
    called = roc.threshold(Fraction(4, 5)).called(small.scores)
    others = ~small.members
    np.testing.assert_allclose(found.values[others], (-slope * (called - 0.8) / 24)[others])


def test_the_gap_of_means_and_its_influence(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 5, 30, 12)
    gained = random.integers(-1, 2, members.shape).astype(np.float64)
    gaps = [row[own].mean() - row[~own].mean() for row, own in zip(gained, members, strict=True)]
    found = mean_gap(gained, Scored(gained, members))
    assert found.value == pytest.approx(np.mean(gaps))
    np.testing.assert_allclose(found.values.sum(axis=1), (np.array(gaps) - np.mean(gaps)) / 5, atol=1e-15)


@pytest.mark.parametrize("figure", FIGURES)
def test_members_that_were_set_aside_count_as_neither(figure: Figure, masks: Callable[..., Bools]) -> None:
    """The figures of a cell without them: their scores do not matter, and they have no influence."""
    random = np.random.default_rng(0)
    members = np.tile(masks(random, 1, 60, 30), (3, 1))
    scores = random.standard_normal(members.shape) + members
    aside = np.flatnonzero(members[0])[:10]
    evaluated = np.ones_like(members)
    evaluated[:, aside] = False
    scored = Scored(np.where(evaluated, scores, 99.0), members, evaluated)
    found = figure(scored)
    cut = Scored(np.delete(scores, aside, axis=1), np.delete(members, aside, axis=1))
    assert found.value == pytest.approx(figure(cut).value, abs=1e-12)
    np.testing.assert_allclose(np.delete(found.values, aside, axis=1), figure(cut).values, atol=1e-15)
    assert not found.values[:, aside].any()
    assert scored.members_per_target == 20


def test_a_target_that_set_all_its_members_aside_is_refused() -> None:
    members = np.array([[True, False]])
    with pytest.raises(BenchError, match="target 0 has 0 members and 1 non-members"):
        Scored(np.zeros((1, 2)), members, ~members).check()


def test_nan_is_refused_with_its_target() -> None:
    scores = np.zeros((2, 4))
    scores[1, :3] = np.nan
    with pytest.raises(BenchError, match="target 1 ") as caught:
        Scored(scores, np.array([[True, False, True, False]] * 2)).check()
    assert (caught.value.field, caught.value.value) == ("scores", 3)


@pytest.mark.parametrize("everyone", [True, False])
def test_a_target_of_one_side_is_refused(everyone: bool) -> None:
    members = np.array([[True, False], [everyone, everyone]])
    with pytest.raises(BenchError, match=r"target 1 has [02] members and [02] non-members"):
        Scored(np.zeros((2, 2)), members).check()
    assert one_sided(members[:1], ~members[:1]) is None


def test_shapes_must_agree() -> None:
    with pytest.raises(BenchError) as caught:
        Scored(np.zeros((1, 3)), np.array([[True, False]])).check()
    assert (caught.value.value, caught.value.allowed) == ((1, 3), (1, 2))
