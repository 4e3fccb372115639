"""The randomised test against its enumeration, and the facts of its specification."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from harness.leakage.matrices import Bools, Floats
from harness.leakage.roc import BETWEEN, RATES, Roc, calibrated
from workloads.errors import BenchError

FACTS = (
    np.array([[3, 3, 3, 2, 2, 1, 1, 1, 0, 0]], dtype=np.float64),
    np.array([[1, 1, 0, 1, 0, 1, 0, 0, 0, 1]], dtype=np.bool_),
)
SCORES = st.sampled_from([-math.inf, -1.0, -0.5, 0.0, 0.5, 1.0, 1e300, math.inf]) | st.floats(-3, 3)


@st.composite
def judged(draw: st.DrawFn) -> tuple[Floats, Bools]:
    """Scores with ties and infinities, and masks with a member and a non-member in each row."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 8)))
    members = draw(hnp.arrays(np.bool_, shape))
    members[:, 0], members[:, 1] = True, False
    return draw(hnp.arrays(np.float64, shape, elements=SCORES)), members


def enumerated(scores: Floats, members: Bools, rate: Fraction) -> float:
    """Call groups of equal scores whole from the highest down, and of the next one the share that is left."""
    flat, truth = scores.ravel(), members.ravel()
    left, hits = rate * int((~truth).sum()), Fraction(0)
    for level in sorted(set(flat.tolist()), reverse=True):
        inside, outside = int((truth & (flat == level)).sum()), int((~truth & (flat == level)).sum())
        share = min(Fraction(1), left / outside) if outside else Fraction(1)
        hits, left = hits + share * inside, left - share * outside
        if share < 1:
            break
    return float(hits / int(truth.sum()))


def gaussian_grid(mu: float, n: int) -> tuple[Floats, Bools]:
    """Exact quantiles of N(mu, 1) for members and N(0, 1) for non-members: no sampling noise."""
    grid = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return np.concatenate([grid + mu, grid])[None], (np.arange(2 * n) < n)[None]


def test_facts() -> None:
    roc = Roc.of(*FACTS)
    np.testing.assert_allclose(roc.fpr, [0, 0.2, 0.4, 0.8, 1])
    np.testing.assert_allclose(roc.tpr, [0, 0.4, 0.6, 0.8, 1])
    rates = [Fraction(each, 10) for each in (1, 2, 3, 5)]
    assert [roc.at(rate) for rate in rates] == pytest.approx([0.2, 0.4, 0.5, 0.65], abs=1e-12)
    assert [roc.tied(rate) for rate in rates] == pytest.approx([0.2, 0, 0.2, 0.4])


@pytest.mark.slow
@given(judged(), st.fractions(min_value=Fraction(1, 50), max_value=1))
@settings(max_examples=150, derandomize=True)
def test_equals_the_enumerated_test(case: tuple[Floats, Bools], rate: Fraction) -> None:
    scores, members = case
    roc = Roc.of(scores, members)
    assert roc.at(rate) == pytest.approx(enumerated(scores, members, rate), abs=1e-12)
    called = roc.threshold(rate).called(scores)
    assert called[~members].mean() == pytest.approx(float(rate), abs=1e-12), "its size is exact"
    assert called[members].mean() == pytest.approx(roc.at(rate), abs=1e-12)
    straddled = [
        (scores[~members] == level).mean()
        for level in set(scores.ravel().tolist())
        if (scores[~members] > level).sum() < rate * (~members).sum() < (scores[~members] >= level).sum()
    ]
    assert roc.tied(rate) == pytest.approx(sum(straddled))


@given(judged())
@settings(max_examples=60, derandomize=True)
def test_order_of_records_and_targets_does_not_matter(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    order = np.random.default_rng(0).permutation(scores.size)
    shuffled = Roc.of(scores.ravel()[None, order], members.ravel()[None, order])
    for one, other in zip(vars(Roc.of(scores, members)).values(), vars(shuffled).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_equal_scores_call_every_record_with_the_chance_of_the_rate() -> None:
    roc = Roc.of(np.zeros((2, 50)), np.arange(100).reshape(2, 50) % 2 == 0)
    assert [roc.at(rate) for rate in RATES.values()] == pytest.approx([0.1, 0.01, 0.001, 0.0001])
    assert roc.tied(RATES["0.01"]) == 1


def test_a_coarse_score_is_interpolated_instead_of_zero() -> None:
    """The highest of five values has 60 % of the members and 11 % of the others: at 10 % it is 54.5 %."""
    members = (np.arange(200) < 100)[None]
    scores = np.zeros((1, 200))
    scores[0, :60] = scores[0, 100:111] = 1
    assert Roc.of(scores, members).at(RATES["0.1"]) == pytest.approx(0.6 * 10 / 11)
    scores[0, 110] = 0
    at_the_corner = Roc.of(scores, members)
    assert (at_the_corner.at(RATES["0.1"]), at_the_corner.tied(RATES["0.1"])) == (0.6, 0)


def test_members_beyond_the_last_non_member_within_the_rate_are_called() -> None:
    """A vertical piece of the curve at exactly the rate counts whole."""
    members = np.array([[True, False, True, True, False, True]])
    scores = np.array([[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]])
    assert Roc.of(scores, members).at(Fraction(1, 2)) == 0.75


def test_whether_a_corner_lies_at_the_rate_is_decided_exactly() -> None:
    """3 of 30 non-members are exactly one tenth, which 0.1 in floating point is not."""
    scores, members = np.arange(60.0)[None], (np.arange(60) % 2 == 0)[None]
    assert Roc.of(scores, members).tied(RATES["0.1"]) == 0


@pytest.mark.parametrize(("needed", "label"), [(100, "0.1"), (1_000, "0.01"), (10_000, "0.001")])
def test_too_few_non_members_are_counted(needed: int, label: str) -> None:
    enough = Roc(np.array([0, needed]), np.array([0, 5]), np.zeros(1))
    short = Roc(np.array([0, needed - 1]), np.array([0, 5]), np.zeros(1))
    assert enough.shortage(RATES[label]) is None
    assert short.shortage(RATES[label]) == f"needs N >= {needed} non-members, has {needed - 1}"


@given(judged())
@settings(max_examples=80, derandomize=True)
def test_calibrated_ranks_keep_the_curve_and_count_false_positives(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    ranks = calibrated(scores, members)
    outside = scores[~members]
    for rank, score in zip(ranks.ravel(), scores.ravel(), strict=True):
        assert rank == 2 * (outside > score).sum() + (outside == score).sum()
    plain, counted = Roc.of(scores, members), Roc.of_calibrated(ranks, members)
    for rate in (Fraction(1, 7), Fraction(1, 2), Fraction(1)):
        assert counted.at(rate) == pytest.approx(plain.at(rate), abs=1e-12)
    slow = Roc.of(-ranks.astype(np.float64), members)
    np.testing.assert_array_equal(counted.fp, slow.fp)
    np.testing.assert_array_equal(counted.tp, slow.tp)
    np.testing.assert_array_equal(counted.levels, slow.levels)


def test_gaussian_tpr_at_a_thousandth() -> None:
    assert Roc.of(*gaussian_grid(1.0, 100_000)).at(RATES["0.001"]) == pytest.approx(0.018298, abs=2e-4)


@given(judged())
@settings(max_examples=50, derandomize=True)
def test_a_short_curve_has_every_corner_and_its_area(case: tuple[Floats, Bools]) -> None:
    roc = Roc.of(*case)
    drawn = roc.drawn()
    fpr, tpr = np.array(drawn["fpr"]), np.array(drawn["tpr"])
    assert (np.diff(fpr) >= 0).all() and (np.diff(tpr) >= -1e-15).all()
    assert {*zip(roc.fpr, roc.tpr, strict=True)} <= {*zip(fpr, tpr, strict=True)}
    assert np.trapezoid(tpr, fpr) == pytest.approx(np.trapezoid(roc.tpr, roc.fpr))


def test_chords_get_points_that_are_even_on_logarithmic_axes() -> None:
    """One group of ties from (0, 0) to (1, 1): straight in the plane, and in logarithms too."""
    drawn = Roc.of(np.zeros((1, 40)), (np.arange(40) < 20)[None]).drawn()
    assert len(drawn["fpr"]) == len(BETWEEN) + 1
    np.testing.assert_allclose(drawn["fpr"], drawn["tpr"])


def test_a_long_curve_is_thinned_without_losing_its_shape() -> None:
    roc = Roc.of(*gaussian_grid(1.0, 50_000))
    drawn = roc.drawn(points=300)
    fpr, tpr = np.array(drawn["fpr"]), np.array(drawn["tpr"])
    assert 150 < len(fpr) <= 300
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert (np.diff(fpr) >= 0).all() and (np.diff(tpr) >= 0).all()
    marks = np.geomspace(1e-4, 1, 200)
    shown, true = np.interp(marks, fpr, tpr), np.interp(marks, roc.fpr, roc.tpr)
    assert np.abs(np.log10(shown / true)).max() < 0.05  # of a decade: unseen on log-log axes
    assert np.abs(shown - true).max() < 0.005


def test_a_curve_with_too_few_points_is_refused() -> None:
    with pytest.raises(BenchError) as caught:
        Roc.of(np.zeros((1, 2)), np.array([[True, False]])).drawn(points=20)
    assert (caught.value.field, caught.value.value) == ("points", 20)
