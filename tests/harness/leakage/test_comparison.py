"""Paired comparisons: facts of the specification, scipy's tests, and sentences that never overclaim."""

import numpy as np
import pytest
from scipy import stats

from harness.leakage.candidates import FAMILY, Candidates
from harness.leakage.comparison import (
    ACCURACY,
    AUC,
    TPR,
    Comparison,
    accuracy_test_se,
    holm,
    measure_strongest,
    paired_accuracy,
    paired_leakage,
    paired_strongest,
    sentence,
    smallest_detectable,
)
from harness.leakage.influence import Scored, auc
from harness.leakage.intervals import halves, heterogeneity, parts, variance
from harness.leakage.roc import RATES
from harness.leakage.scoring import lira_bayes, rmia
from tests.harness.leakage.conftest import Signals
from workloads.errors import BenchError

A = np.array([0.91, 0.93, 0.90, 0.94, 0.92, 0.95, 0.91, 0.93])
B = np.array([0.90, 0.91, 0.90, 0.92, 0.91, 0.92, 0.91, 0.91])


def test_facts_of_accuracy() -> None:
    found = paired_accuracy(A, B)
    assert found.difference == pytest.approx(0.01375, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((0.0048826591, 0.0226173409), abs=5e-11)
    assert found.p == pytest.approx(0.0079994338, abs=5e-11)
    assert found.effect_size == pytest.approx(1.2963624322, abs=5e-10)
    assert found.detectable == pytest.approx(0.0122274521, abs=5e-11)
    assert (found.models, found.reason) == (8, None)
    assert found.p == pytest.approx(stats.ttest_rel(A, B).pvalue)


def test_facts_of_leakage(signals: Signals) -> None:
    one, other = (
        Scored(lira_bayes(phi, signals.members, ~signals.members), signals.members) for phi in signals[:2]
    )
    found = paired_leakage("auc", one, other, "record")
    assert found.difference == pytest.approx(0.0701851852, abs=5e-11)
    values = auc(one).values - auc(other).values
    shown = parts(values)
    assert (shown.by_model, shown.by_record, shown.by_pair) == pytest.approx(
        (1.5538768861e-3, 9.0883275121e-4, 8.5501163361e-4), rel=1e-10
    )
    assert found.se is not None
    assert found.se**2 == pytest.approx(1.6076980037e-3, rel=1e-10)
    unpaired = variance(auc(one).values, "record") + variance(auc(other).values, "record")
    assert unpaired == pytest.approx(1.9911383957e-3, rel=1e-10)
    p = 2 * stats.t.sf(found.difference / found.se, 5) if found.difference else None
    assert found.p == pytest.approx(p)


def test_facts_of_the_smallest_detectable_difference() -> None:
    for models, of_error, of_spread in ((8, 3.26, 1.15), (16, None, 0.75), (4, None, 2.08)):
        assert smallest_detectable(1 / np.sqrt(models), models) == pytest.approx(of_spread, abs=5e-3)
        assert of_error is None or smallest_detectable(1.0, models) == pytest.approx(of_error, abs=5e-3)


@pytest.fixture(scope="module")
def cells(signals: Signals) -> list[Candidates]:
    found = []
    for phi in signals[:2]:
        scores = {"loss": phi, "lira": lira_bayes(phi, signals.members, ~signals.members)}
        scores["rmia"] = rmia(phi, signals.members, ~signals.members, signals.population)
        found.append(Candidates.of(scores, signals.members))
    return found


@pytest.mark.parametrize("axis", ["auc", "0.1"])
def test_the_strongest_attacks_differ_by_their_figures_within_the_largest_error(
    axis: str, cells: list[Candidates]
) -> None:
    one, other = cells
    found = paired_strongest(*(measure_strongest(axis, each, {}) for each in cells))
    figures = [each.auc() if axis == "auc" else each.tpr(RATES[axis]) for each in cells]
    assert found.difference == pytest.approx(figures[0].value - figures[1].value)
    singles = [paired_leakage(axis, one.scored[n], other.scored[n], FAMILY[n]).se for n in FAMILY]
    assert found.se == max(error for error in singles if error is not None)


def test_honest_differences_between_records_are_taken_out(signals: Signals, cells: list[Candidates]) -> None:
    apart = []
    for phi in signals[:2]:
        parts_of = []
        for half in halves(6):
            members = signals.members[half]
            parts_of.append(Scored(lira_bayes(phi[half], members, ~members), members))
        apart.append((parts_of[0], parts_of[1]))
    one, other = (each.scored["lira"] for each in cells)
    values = auc(one).values - auc(other).values
    pairs = zip(*apart, strict=True)
    honest = heterogeneity(*(auc(first).values - auc(second).values for first, second in pairs))
    found = paired_leakage("auc", one, other, "record", *apart)
    assert found.se == pytest.approx(variance(values, "record", honest) ** 0.5)
    measured = [
        measure_strongest("auc", cell, {"lira": half}) for cell, half in zip(cells, apart, strict=True)
    ]
    assert paired_strongest(*measured).se is not None


def test_a_method_does_not_differ_from_itself(cells: list[Candidates]) -> None:
    measured = measure_strongest("auc", cells[0], {})
    found = paired_strongest(measured, measured)
    assert (found.difference, found.se, found.p, found.reason) == (0, 0, 1, None)


def test_pairs_without_spread() -> None:
    same = paired_accuracy(A, A)
    assert (same.difference, same.p, same.effect_size, same.reason) == (0, 1, None, None)
    apart = paired_accuracy(A + 0.01, A)
    assert apart.difference == pytest.approx(0.01)
    assert (apart.p, apart.effect_size, apart.reason) == (None, None, "no spread between models")


def test_fewer_than_four_pairs_are_not_compared(small: Scored) -> None:
    found = paired_accuracy(A[:3], B[:3])
    assert found == Comparison(3, reason="needs at least 4 models that both cells have, has 3")
    three = small.take(slice(0, 3))
    assert paired_leakage("auc", three, three, "alone").difference is None
    assert sentence("a", "b", found, None, ACCURACY).startswith("not compared: needs at least 4")


def test_other_members_are_no_pairs(small: Scored) -> None:
    with pytest.raises(BenchError) as caught:
        paired_leakage("auc", small, Scored(small.scores, ~small.members), "alone")
    assert caught.value.field == "members"


def test_holm_is_the_step_down_rule() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.4, 0.9]) == [0.8, 0.9]
    assert holm([]) == []
    shown = holm([0.01, None, 0.04])
    assert shown == [pytest.approx(0.03), None, pytest.approx(0.08)]


def test_the_error_over_test_records_is_the_error_of_their_mean() -> None:
    random = np.random.default_rng(0)
    first, second = random.random((2, 5, 300)) < 0.8
    differences = first.mean(axis=0) - second.mean(axis=0)
    assert accuracy_test_se(first, second) == pytest.approx(differences.std() / np.sqrt(300))
    assert accuracy_test_se(first, first) == 0


def test_a_winner_is_named_with_both_p_values() -> None:
    found = paired_accuracy(A, B)
    stated = sentence("alpha", "beta", found, 0.03, ACCURACY)
    assert stated == "alpha is more accurate by 1.4 points [0.5, 2.3], p = .008 (Holm .03)"
    turned = paired_accuracy(B, A)
    assert sentence("beta", "alpha", turned, 0.03, ACCURACY) == stated
    assert "p < .001 (Holm < .001)" in sentence("a", "b", paired_accuracy(A + 1, B), 1e-9, ACCURACY)


def test_the_one_that_leaks_less_wins() -> None:
    found = Comparison(8, 0.02, 0.01, 0.03, 0.004, 0.001, None, 0.013)
    assert sentence("a", "b", found, 0.01, TPR) == (
        "b leaks less by 2.0 points of TPR [1.0, 3.0], p = .001 (Holm .01)"
    )
    assert sentence("a", "b", found, 0.01, AUC).startswith("b leaks less by 0.020 of AUC [0.010, 0.030]")


def test_without_significance_no_method_is_better() -> None:
    found = paired_accuracy(A, B)
    assert sentence("a", "b", found, 0.05, ACCURACY) == (
        "indistinguishable (difference 1.4 points [0.5, 2.3]; 8 models can show 1.2 points)"
    )
    flat = paired_accuracy(A + 0.01, A)
    assert sentence("a", "b", flat, None, ACCURACY) == (
        "not tested: no spread between models (difference 1.0 points)"
    )
