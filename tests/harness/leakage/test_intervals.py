"""Variances and intervals against the facts of the specification, and at their edges."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.leakage import intervals
from harness.leakage.influence import Figure, Scored, auc, balanced_accuracy, tpr
from harness.leakage.intervals import (
    Dependence,
    Estimate,
    clopper_pearson,
    delong,
    estimate,
    heterogeneity,
    linear,
    of_rate,
    of_share,
    parts,
    scored_apart,
    variance,
)
from harness.leakage.matrices import Bools
from harness.leakage.scoring import lira_bayes
from tests.harness.leakage.conftest import Signals

QUARTER: Figure = partial(tpr, rate=Fraction(1, 4))


@pytest.mark.parametrize(
    ("figure", "by_model", "by_record", "by_pair"),
    [
        (auc, 3.6651234568e-3, 5.4713804714e-3, 4.1835455247e-3),
        (QUARTER, 6.3657407407e-3, 1.3606113215e-2, 1.6420717593e-2),
        (balanced_accuracy, 2.3148148148e-3, 2.8409090909e-3, 3.90625e-3),
    ],
)
def test_facts_of_the_parts(
    figure: Figure, by_model: float, by_record: float, by_pair: float, small: Scored
) -> None:
    found = parts(figure(small).values)
    assert vars(found) == pytest.approx(
        {"by_model": by_model, "by_record": by_record, "by_pair": by_pair}, rel=1e-10
    )


def test_facts_of_the_variances(small: Scored) -> None:
    area, rate = auc(small).values, QUARTER(small).values
    assert variance(area, "record") == pytest.approx(4.9529584035e-3, rel=1e-10)
    assert variance(area, "learned") == pytest.approx(7.8486689815e-3, rel=1e-10)
    assert variance(area, "alone") == parts(area).by_model
    assert variance(rate, "record") == pytest.approx(6.3657407407e-3, rel=1e-10)
    lone = auc(small.take(slice(0, 1)))
    assert lone.value == pytest.approx(0.8888888889, abs=5e-11)
    for dependence in get_args(Dependence):
        assert math.sqrt(variance(lone.values, dependence)) == pytest.approx(0.0907218423, abs=5e-11)


def test_facts_of_the_intervals(small: Scored) -> None:
    area = of_share(estimate(auc, small, "record"), 4, 6)
    assert area == pytest.approx((0.5676948229, 1.0), abs=5e-11)
    rate = of_rate(estimate(QUARTER, small, "record"), 4, 24)
    assert rate == pytest.approx((0.4153910411, 0.8924801915), abs=5e-11)


def test_facts_of_lira(signals: Signals) -> None:
    scored = Scored(lira_bayes(signals.phi, signals.members, ~signals.members), signals.members)
    found = parts(auc(scored).values)
    assert (found.by_model, found.by_record, found.by_pair) == pytest.approx(
        (7.1391160837e-4, 3.8303412929e-4, 4.0674719996e-4), rel=1e-10
    )
    halves = []
    for half in intervals.halves(6):
        members = signals.members[half]
        halves.append(auc(Scored(lira_bayes(signals.phi[half], members, ~members), members)).values)
    assert heterogeneity(*halves) == pytest.approx(3.4483119951e-5, rel=1e-10)


def test_halves_are_the_even_and_the_odd_positions() -> None:
    positions = np.arange(9)
    first, second = (positions[half].tolist() for half in intervals.halves(9))
    assert (first, second) == ([0, 2, 4, 6, 8], [1, 3, 5, 7])


def test_honest_differences_between_records_do_not_count() -> None:
    """What every record adds in both halves alike is taken out; a negative product is none."""
    random = np.random.default_rng(0)
    lasting = 0.01 * random.standard_normal(500)
    values = lasting / 8 + 0.001 * random.standard_normal((8, 500)) / 8
    first, second = (values[half] * 2 for half in intervals.halves(8))
    honest = heterogeneity(first, second)
    assert honest == pytest.approx(float((lasting**2).sum()) * 7 / 8, rel=0.05)
    assert heterogeneity(first, -second) == 0
    assert variance(values, "record", honest) < 0.2 * variance(values, "record")


def test_what_targets_share_is_at_most_three_times_the_pairs() -> None:
    """All of V_R in one record: far above what pairs that share shadows can have in common."""
    values = np.zeros((6, 50))
    values[:, 0], values[:, 1] = 1.0, -1.0
    found = parts(values)
    assert found.by_record > 5 * found.by_pair and found.by_model == 0
    assert variance(values, "record") == pytest.approx(3 * found.by_pair)


@pytest.mark.parametrize("models", [1, 7, 8, 9])
@pytest.mark.parametrize("dependence", get_args(Dependence))
def test_halves_count_from_eight_models_on(models: int, dependence: Dependence) -> None:
    scored = Scored(np.zeros((models, 3)), np.ones((models, 3), dtype=np.bool_))
    apart = scored_apart(np.ones((models, 3)), scored, dependence)
    assert (apart is not None) == (models >= 8 and dependence == "record")
    assert scored_apart(None, scored, dependence) is None
    assert apart is None or [half.models for half in apart] == [(models + 1) // 2, models // 2]


def test_an_interval_names_its_method() -> None:
    assert intervals.name("alone", 8, apart=False) == "targets"
    assert intervals.name("learned", 8, apart=False) == "two-way, learned"
    assert intervals.name("record", 8, apart=True) == "two-way"
    assert intervals.name("record", 8, apart=False) == "two-way, no halves"
    assert intervals.name("record", 7, apart=False) == "two-way"
    assert {intervals.name(each, 1, apart=False) for each in get_args(Dependence)} == {"delong"}
    assert [intervals.remarks(models) for models in (1, 2, 3, 4)] == [
        ["over records of one model"],
        ["2 models"],
        ["3 models"],
        [],
    ]


@pytest.mark.parametrize(("value", "ends"), [(1.0, (0.025 ** (1 / 20), 1.0)), (0.0, (0.0, 1 - 0.025**0.05))])
def test_a_perfect_share_is_not_certain(value: float, ends: tuple[float, float]) -> None:
    assert of_share(Estimate(value, 0.0), 4, 20) == pytest.approx(ends)


def test_a_share_is_cut_to_its_range() -> None:
    assert of_share(Estimate(0.9, 0.2), 4, 20)[1] == 1
    assert linear(-0.9, 0.2, 4, (-1.0, 1.0))[0] == -1


@pytest.mark.parametrize("value", [0.0, 0.9 / 80])
def test_less_than_one_member_called_is_taken_for_none(value: float) -> None:
    low, high = of_rate(Estimate(value, 0.01), 4, 80)
    assert (low, high) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    mirrored = of_rate(Estimate(1 - value, 0.01), 4, 80)
    assert mirrored == pytest.approx((1 - high, 1 - low))


def test_a_rate_has_an_interval_on_the_logit() -> None:
    low, high = of_rate(Estimate(0.2, 0.03), 8, 800)
    half = stats.t.ppf(0.975, 7) * 0.03 / 0.16
    assert np.log(low / (1 - low)) == pytest.approx(np.log(0.25) - half)
    assert np.log(high / (1 - high)) == pytest.approx(np.log(0.25) + half)
    assert of_rate(Estimate(0.2, 1e6), 2, 800) == (0.0, 1.0)  # without an overflow
    assert of_rate(Estimate(0.3, 0.0), 8, 800) == pytest.approx((0.3, 0.3))


def test_one_model_has_the_normal_quantile() -> None:
    assert intervals.quantile(1) == pytest.approx(1.959964, abs=1e-6)
    assert intervals.quantile(8) == pytest.approx(2.364624, abs=1e-6)


def test_without_shadows_it_is_students_interval_over_targets(small: Scored) -> None:
    each = auc(small).per_target
    expected = stats.t.interval(0.95, 3, each.mean(), stats.sem(each))
    assert of_share(estimate(auc, small, "alone"), 4, 6) == pytest.approx(expected)


def test_the_order_of_records_and_of_targets_does_not_matter(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 9, 200, 100)
    scores = random.standard_normal(members.shape) + members
    records, targets = random.permutation(200), random.permutation(9)
    for figure in (auc, QUARTER, balanced_accuracy):
        plain = estimate(figure, Scored(scores, members), "record")
        other = Scored(scores[targets][:, records], members[targets][:, records])
        assert estimate(figure, other, "record").error == pytest.approx(plain.error)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=60, derandomize=True)
def test_clopper_pearson_equals_scipy(case: tuple[int, int]) -> None:
    hits, trials = case
    exact = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    assert clopper_pearson(hits, trials) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_clopper_pearson_leaves_two_and_a_half_percent_on_each_side() -> None:
    low, high = clopper_pearson(7, 50)
    assert stats.binom.sf(6, 50, low) == pytest.approx(0.025)
    assert stats.binom.cdf(7, 50, high) == pytest.approx(0.025)


def test_delong_equals_placements_and_covers() -> None:
    """Against the definition by all pairs, and 95 % coverage of the true AUC of a Gaussian pair."""
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        members = np.arange(90) < 40
        scores = random.standard_normal(90) + members
        wins = scores[members][:, None] > scores[~members][None]
        expected = math.sqrt(wins.mean(1).var(ddof=1) / 40 + wins.mean(0).var(ddof=1) / 50)
        error, (low, high) = delong(scores, members)
        assert error == pytest.approx(expected)
        assert low == pytest.approx(wins.mean() - 1.959964 * expected, abs=1e-6)
        assert high == pytest.approx(min(wins.mean() + 1.959964 * expected, 1), abs=1e-6)
        covered += low <= 0.76025 <= high
    assert 0.91 < covered / 300 < 0.99


def test_delong_at_its_edges() -> None:
    members = np.arange(40) < 20
    assert delong(members.astype(np.float64), members)[1] == pytest.approx((0.025 ** (1 / 20), 1))
    assert delong(np.array([3.0, 1.0, 2.0]), np.array([True, False, False])) == (None, (0.0, 1.0))
