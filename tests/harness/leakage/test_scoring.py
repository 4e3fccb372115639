"""Scores from arrays: facts of the specification, slow references, and records without shadows."""

import warnings
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from harness.leakage import scoring
from harness.leakage.influence import Scored, auc
from harness.leakage.matrices import Bools, Floats
from harness.leakage.moments import leave_one_out_log_mean
from harness.leakage.scoring import (
    cross_entropy,
    fine_rank,
    lira_bayes,
    lira_online,
    loss,
    rescaled_logit,
    rmia,
    rmia_offline,
    share_beaten,
)
from tests.harness.leakage.conftest import Signals
from workloads.errors import BenchError


def test_facts_of_lira_bayes(signals: Signals) -> None:
    scores = lira_bayes(signals.phi, signals.members, ~signals.members)
    expected = [-0.3755526653, 1.3082214496, -1.1012449194, -0.2705894513]
    np.testing.assert_allclose(scores[0, :4], expected, atol=5e-11)
    assert scores.sum() == pytest.approx(-6.84298275, abs=5e-9)
    assert auc(Scored(scores, signals.members)).value == pytest.approx(0.6599537037, abs=5e-11)


def test_facts_of_rmia(signals: Signals) -> None:
    scores = rmia(signals.phi, signals.members, ~signals.members, signals.population)
    expected = [0.1903708153, 0.9555886101, 0.1825236131, 0.5296575571]
    np.testing.assert_allclose(scores[0, :4], expected, atol=5e-11)
    assert scores.sum() == pytest.approx(367.72106880, abs=5e-9)
    assert auc(Scored(scores, signals.members)).value == pytest.approx(0.6371759259, abs=5e-11)


def slow_bayes(phi: Floats, members: Bools, m: int) -> Floats:
    """One target, record by record: the posterior by least squares, the predictive by scipy's normal.

    For cells with one bin of difficulty, where variances and the prior are single numbers or a line.
    """
    others = np.arange(len(phi)) != m
    outs = [phi[others & ~members[:, i], i] for i in range(phi.shape[1])]
    ins = [phi[others & members[:, i], i] for i in range(phi.shape[1])]
    c0, c1 = np.array([len(x) for x in outs]), np.array([len(x) for x in ins])
    m0, m1 = (np.array([x.mean() if len(x) else 0.0 for x in side]) for side in (outs, ins))
    s0, s1 = (np.array([x.var() * len(x) if len(x) else 0.0 for x in side]) for side in (outs, ins))
    f0, f1 = np.maximum(c0 - 1, 0).sum(), np.maximum(c1 - 1, 0).sum()
    both = (c0 > 0) & (c1 > 0)
    gap = np.average((m1 - m0)[both], weights=1 / (1 / c0[both] + 1 / c1[both]))
    place = (c0 * m0 + c1 * (m1 - gap)) / (c0 + c1)
    v = (s0 + s1).sum() / (f0 + f1)
    ratio, noise = np.log((s1.sum() / f1) / (s0.sum() / f0)), 2 / f0 + 2 / f1
    real = max(ratio**2 - noise, 0.0)
    rho = ratio * real / (real + noise)
    v0, v1 = v * np.exp(-rho / 2), v * np.exp(rho / 2)
    room = 1 / (1 + np.exp(place))
    sampling = v0 / np.maximum(c0, 1) + v1 / np.maximum(c1, 1)
    slope, level = np.polyfit(room[both], (m1 - m0)[both], 1, w=np.sqrt(1 / sampling[both]))
    prior = np.maximum(level + slope * room, 0.1 * np.sqrt(v0))
    excess = np.average((m1 - m0 - prior)[both] ** 2 - sampling[both], weights=1 / sampling[both])
    spread = max(excess, 1e-6 * (v0 + v1) / 2)
    scores = np.zeros(phi.shape[1])
    for i in range(phi.shape[1]):
        # Rows: every OUT shadow sees b, every IN shadow b + delta, the prior sees delta.
        design = np.array([[1.0, 0.0]] * c0[i] + [[1.0, 1.0]] * c1[i] + [[0.0, 1.0]])
        weight = np.array([1 / v0] * c0[i] + [1 / v1] * c1[i] + [1 / spread])
        seen = np.concatenate([outs[i], ins[i], [prior[i]]])
        covariance = np.linalg.inv(design.T @ (design * weight[:, None]))
        b, delta = covariance @ design.T @ (weight * seen)
        inside = stats.norm(b + delta, np.sqrt(v1 + covariance.sum()))
        outside = stats.norm(b, np.sqrt(v0 + covariance[0, 0]))
        scores[i] = inside.logpdf(phi[m, i]) - outside.logpdf(phi[m, i])
    return scores


def test_lira_bayes_equals_least_squares_and_scipys_normal(masks: Callable[..., Bools]) -> None:
    """40 records make one bin; some have no shadows on one side, which needs no special case."""
    random = np.random.default_rng(5)
    members = masks(random, 5, 40, 20)
    phi = random.normal(1, 2, 40) + random.normal(size=members.shape) * (1 + members) + 0.8 * members
    for m in range(5):
        others = np.delete(members, m, axis=0).sum(axis=0)
        assert ((others == 0) | (others == 4)).any()
        np.testing.assert_allclose(
            lira_bayes(phi, members, ~members)[m], slow_bayes(phi, members, m), rtol=1e-8
        )


@pytest.mark.parametrize("models", [1, 2, 3, 8])
def test_every_score_is_a_number_where_shadows_are_missing(models: int, masks: Callable[..., Bools]) -> None:
    """Records of all models or of none, constant signals, one record, repeated bins: no NaN, no warning."""
    random = np.random.default_rng(models)
    cases = [random.standard_normal((models, 300)), np.zeros((models, 300)), np.full((models, 300), 40.0)]
    cases.append(np.repeat([[1.0, 2.0, 50.0]], 100).reshape(1, 300).repeat(models, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for phi in cases:
            for members in (masks(random, models, 300, 150), np.ones((models, 300), dtype=np.bool_)):
                for mask in (members, ~members):
                    assert np.isfinite(lira_bayes(phi, mask, ~mask)).all()
                    assert np.isfinite(rmia(phi, mask, ~mask, phi[:, :7])).all()
                    assert np.isfinite(rmia_offline(phi, ~mask, phi[:, :7], 0.3)).all()
    everyone = np.ones((models, 1), dtype=np.bool_)
    assert np.isfinite(lira_bayes(np.ones((models, 1)), everyone, ~everyone)).all()


def test_a_target_alone_has_no_evidence() -> None:
    phi, members = np.array([[3.0, -1.0]]), np.array([[True, False]])
    np.testing.assert_array_equal(lira_bayes(phi, members, ~members), 0)
    np.testing.assert_array_equal(lira_online(phi, members, ~members, fixed=True), 0)
    same = rmia(phi, members, ~members, np.array([[0.0, 1.0]]))
    assert same[0, 0] == same[0, 1]


def test_a_row_uses_nothing_of_its_own_mask(signals: Signals) -> None:
    members = signals.members.copy()
    members[2] = ~members[2]
    for score in (lira_bayes, partial(rmia, population_phi=signals.population)):
        one, other = (score(signals.phi, each, ~each) for each in (signals.members, members))
        np.testing.assert_array_equal(one[2], other[2])
        assert (one[0] != other[0]).any()


def test_bayes_finds_more_than_online_with_few_shadows(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 4, 2000, 1000)
    phi = random.normal(1, 2, 2000) + random.normal(size=members.shape) + 0.3 * members
    found = lira_bayes(phi, members, ~members), lira_online(phi, members, ~members, fixed=True)
    bayes, online = (auc(Scored(each, members)).value for each in found)
    assert bayes > online + 0.02


def slow_rmia(phi: Floats, members: Bools, m: int, i: int) -> float:
    """The log ratio of a record, from probabilities."""
    chances = 1 / (1 + np.exp(-phi[:, i]))
    others = np.arange(len(phi)) != m
    sides = [chances[others & side] for side in (members[:, i], ~members[:, i])]
    usual = np.mean([side.mean() for side in sides if len(side)])
    return float(np.log(chances[m] / usual))


def test_rmia_is_one_formula_for_records_and_population(signals: Signals) -> None:
    m = 3
    others = np.arange(6) != m
    chances = 1 / (1 + np.exp(-signals.population))
    ratios = np.log(chances[m] / chances[others].mean(axis=0))
    own = np.array([slow_rmia(signals.phi, signals.members, m, i) for i in range(120)])
    scores = rmia(signals.phi, signals.members, ~signals.members, signals.population)[m]
    np.testing.assert_allclose(scores, fine_rank(own, ratios), atol=1e-12)


def test_rmia_offline_takes_the_line_for_both(signals: Signals) -> None:
    a, m = 0.3, 1

    def line(p: Floats) -> Floats:
        return np.asarray(((1 + a) * p + 1 - a) / 2)

    chances, others = 1 / (1 + np.exp(-signals.phi)), np.arange(6) != m
    z = 1 / (1 + np.exp(-signals.population))
    ratios = np.log(z[m] / line(z[others].mean(axis=0)))
    for i in range(20):
        out = chances[others & ~signals.members[:, i], i]
        own = np.log(chances[m, i] / line(out.mean())) if len(out) else 0.0
        found = rmia_offline(signals.phi, ~signals.members, signals.population, a)[m, i]
        assert found == pytest.approx(fine_rank(np.array([own]), ratios)[0], abs=1e-12)


def test_an_offline_line_of_slope_one_has_no_offset(signals: Signals) -> None:
    """a = 1 is P_out itself; then online and offline agree where a record has no IN shadows."""
    nobody = np.zeros(signals.phi.shape, dtype=np.bool_)
    offline = rmia_offline(signals.phi, ~nobody, signals.population, 1.0)
    np.testing.assert_allclose(offline, rmia(signals.phi, nobody, ~nobody, signals.population))


def test_vanishing_probabilities_keep_their_differences() -> None:
    """p of e^-900 is 0 in floating point; its logarithm is not."""
    phi = np.array([[-900.0, -905.0], [-902.0, -902.0], [-902.0, -902.0]])
    members = np.array([[True, False], [True, False], [False, True]])
    scores = rmia(phi, members, ~members, np.array([[-1.0, 1.0]] * 3))
    assert scores[0, 0] > scores[0, 1]


def test_models_that_set_a_record_aside_do_not_count_for_it(signals: Signals) -> None:
    """Neither included nor excluded: as if the model had not been there for this record."""
    included, excluded = signals.members.copy(), ~signals.members
    included[4, :40] = excluded[4, :40] = False
    other = signals.phi.copy()
    other[4, :40] += 100
    for score in (lira_bayes, partial(rmia, population_phi=signals.population)):
        one, moved = (score(phi, included, excluded) for phi in (signals.phi, other))
        np.testing.assert_array_equal(np.delete(one, 4, axis=0), np.delete(moved, 4, axis=0))


def test_log_means_leave_a_row_out() -> None:
    random = np.random.default_rng(0)
    logs, chosen = random.normal(0, 300, (7, 50)), random.random((7, 50)) < 0.5
    found = leave_one_out_log_mean(logs, chosen)
    for m in range(7):
        for i in range(50):
            rows = [r for r in range(7) if r != m and chosen[r, i]]
            expected = logsumexp(logs[rows, i]) - np.log(len(rows)) if rows else -np.inf
            assert found[m, i] == pytest.approx(expected)


def test_the_fine_rank_has_no_steps() -> None:
    population = np.array([0.0, 1.0, 1.0, 3.0])
    values = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 1e6])
    knots = [1, 2.5, 4]  # equal ones share the mean of their ranks
    expected = [0.5, knots[0], (1 + 2.5) / 2, knots[1], (2.5 + 4) / 2, knots[2], 4.5, 5 - 1 / (1e6 - 2)]
    np.testing.assert_allclose(fine_rank(values, population) * 5, expected)


def test_ties_count_as_beaten_at_gamma_one() -> None:
    np.testing.assert_array_equal(
        share_beaten(np.array([0.0, -1.0, 1.0]), np.array([0.0, 0.0, 0.5, 2.0]), 1.0), [0.5, 0.0, 0.75]
    )


def test_sorting_equals_all_pairs_at_a_gamma(signals: Signals) -> None:
    m = 0
    others = np.arange(6) != m
    chances = 1 / (1 + np.exp(-signals.population))
    ratios = chances[m] / chances[others].mean(axis=0)
    scores = rmia(signals.phi, signals.members, ~signals.members, signals.population, gamma=2.0)
    for i in range(120):
        own = np.exp(slow_rmia(signals.phi, signals.members, m, i))
        assert scores[m, i] == pytest.approx(np.mean(own / ratios >= 2.0))


def test_scaling_all_probabilities_alike_changes_nothing() -> None:
    random = np.random.default_rng(1)
    own, population = random.standard_normal(50), random.standard_normal(30)
    np.testing.assert_array_equal(
        share_beaten(own, population, 2.0), share_beaten(own + 4.0, population + 4.0, 2.0)
    )
    np.testing.assert_allclose(fine_rank(own, population), fine_rank(own + 4.0, population + 4.0))


def test_a_temperature_flattens_the_probabilities() -> None:
    random = np.random.default_rng(0)
    logits, labels = random.standard_normal((2, 30, 5)).astype(np.float32) * 4, random.integers(0, 5, 30)
    soft = np.exp(logits.astype(np.float64) / 2)
    own = soft[:, np.arange(30), labels]
    expected = np.log(own) - np.log(soft.sum(axis=2) - own)
    np.testing.assert_allclose(rescaled_logit(logits, labels, 2.0), expected, rtol=1e-9)
    np.testing.assert_array_equal(rescaled_logit(logits, labels, 1.0), rescaled_logit(logits, labels))


def test_a_released_probability_of_zero_has_a_finite_logit_at_every_temperature() -> None:
    logits = np.array([[[-np.inf, 0.0]]], dtype=np.float32)
    phi = rescaled_logit(logits, np.array([0]), 2.0)
    assert phi[0, 0] == pytest.approx(np.log(1e-45) / 2)


def test_loss_is_minus_the_cross_entropy() -> None:
    p = np.array([[0.1, 0.5, 0.999]])
    np.testing.assert_allclose(loss(np.log(p) - np.log1p(-p)), np.log(p), rtol=1e-12)


def test_empty_bins_are_left_out() -> None:
    """Two distinct places: quantile edges repeat, and bins between them are empty."""
    place = np.repeat([0.0, 5.0], 500)
    bins = scoring.Bins.of(place)
    assert len(bins.count) == 20 and (bins.count == 0).sum() == 18
    values = np.where(bins.count > 0, np.arange(20.0), np.nan)
    np.testing.assert_array_equal(np.unique(bins.between(values)), np.flatnonzero(bins.count))


def exact_phi(row: list[float], label: int) -> float:
    """With 400 digits, through the probabilities as defined."""
    with localcontext(prec=400):
        weights = [Decimal(value).exp() for value in row]
        own = weights[label] / sum(weights)
        return float(own.ln() - (1 - own).ln())


def test_matches_the_definition_at_every_confidence() -> None:
    random = np.random.default_rng(0)
    scales = np.array([0.1, 1, 10, 100])[:, None, None]
    logits = (random.standard_normal((4, 12, 5)) * scales).astype(np.float32)
    labels = random.integers(0, 5, 12)
    phi = rescaled_logit(logits, labels)
    for m in range(4):
        for i in range(12):
            expected = exact_phi([float(v) for v in logits[m, i]], int(labels[i]))
            assert phi[m, i] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_saturated_models_keep_their_differences() -> None:
    logits = np.array([[[200, 0, 0], [201, 0, 0]]], dtype=np.float32)
    phi = rescaled_logit(logits, np.array([0, 0]))
    np.testing.assert_allclose(phi, [[200 - np.log(2), 201 - np.log(2)]], rtol=1e-15)
    loss = cross_entropy(phi)
    assert 0 < loss[0, 1] < loss[0, 0] < 1e-80


def test_shift_of_all_logits_changes_nothing() -> None:
    logits = np.array([[[1, 2, 3]]], dtype=np.float32)
    labels = np.array([1])
    np.testing.assert_allclose(
        rescaled_logit(logits, labels), rescaled_logit(logits + 1000, labels), rtol=1e-12
    )


def test_cross_entropy_is_minus_log_p() -> None:
    p = np.array([1e-9, 0.1, 0.5, 0.999])
    np.testing.assert_allclose(cross_entropy(np.log(p) - np.log1p(-p)), -np.log(p), rtol=1e-12)


def test_zero_probability_is_finite_and_below_all_others() -> None:
    rows = np.array([[[0, -np.inf, -1], [0, -90, -1], [0, -300, -np.inf]]], dtype=np.float32)
    phi = rescaled_logit(rows, np.array([1, 1, 2]))
    assert np.isfinite(phi).all()
    assert phi[0, 0] < phi[0, 1]
    assert phi[0, 2] == pytest.approx(-300)


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_refuses_logits_that_are_not_finite(bad: list[float]) -> None:
    logits = np.zeros((2, 3, 2), dtype=np.float32)
    logits[1, 2] = bad
    with pytest.raises(BenchError, match="model 1 ") as caught:
        rescaled_logit(logits, np.zeros(3, dtype=np.int64))
    assert (caught.value.field, caught.value.value) == ("logits", 1)


def test_refuses_a_single_class() -> None:
    with pytest.raises(BenchError) as caught:
        rescaled_logit(np.zeros((1, 3, 1), dtype=np.float32), np.zeros(3, dtype=np.int64))
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("classes", 1, 2)
