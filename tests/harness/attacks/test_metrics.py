"""Metrics against slow twins, closed forms and the rules of evidence."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from harness.attacks.base import Bools, Floats
from harness.attacks.metrics import Metrics, blind_verdict, clopper_pearson, delong, evaluate, roc
from workloads.errors import BenchError

SCORES = st.sampled_from([-math.inf, -1.0, -0.5, 0.0, 0.5, 1.0, 1e300, math.inf]) | st.floats(-3, 3)


@st.composite
def judged(draw: st.DrawFn) -> tuple[Floats, Bools]:
    """Scores with ties and infinities, and masks with a member and a non-member in each row."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 8)))
    members = draw(hnp.arrays(np.bool_, shape))
    members[:, 0], members[:, 1] = True, False
    return draw(hnp.arrays(np.float64, shape, elements=SCORES)), members


def slow_auc(scores: Floats, members: Bools) -> float:
    pairs = [(a, b) for a in scores[members] for b in scores[~members]]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def slow_best(scores: Floats, members: Bools) -> float:
    """The threshold of the greatest TPR - FPR; NaN, which calls nobody, if none gains."""
    gains = {
        t: (scores[members] >= t).mean() - (scores[~members] >= t).mean()
        for t in sorted(set(scores.tolist()), reverse=True)
    }
    best = max(gains, key=lambda t: gains[t])
    return best if gains[best] > 0 else math.nan


def gaussian_grid(mu: float, n: int) -> tuple[Floats, Bools]:
    """Exact quantiles of N(mu, 1) for members and N(0, 1) for non-members: no sampling noise."""
    grid = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return np.concatenate([grid + mu, grid])[None], (np.arange(2 * n) < n)[None]


@given(judged())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_auc_equals_all_pairs(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    metrics = evaluate(scores, members)
    each = [slow_auc(s, m) for s, m in zip(scores, members, strict=True)]
    assert metrics.auc == pytest.approx(np.mean(each))
    assert metrics.auc_pooled == pytest.approx(slow_auc(scores.ravel(), members.ravel()))
    assert 0 <= metrics.auc_low <= metrics.auc + 1e-12
    assert metrics.auc - 1e-12 <= metrics.auc_high <= 1


@given(judged())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_thresholds_come_from_the_other_targets(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    if len(scores) == 1:
        return
    accuracies = []
    for m in range(len(scores)):
        others = np.arange(len(scores)) != m
        threshold = slow_best(scores[others].ravel(), members[others].ravel())
        called = scores[m] >= threshold
        accuracies.append((called[members[m]].mean() + (~called[~members[m]]).mean()) / 2)
    metrics = evaluate(scores, members)
    assert metrics.balanced_accuracy == pytest.approx(np.mean(accuracies))
    assert metrics.advantage == pytest.approx(2 * np.mean(accuracies) - 1)


@given(judged())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_oracle_is_the_best_threshold_on_the_same_scores(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    flat, truth = scores.ravel(), members.ravel()
    called = flat >= slow_best(flat, truth)
    expected = (called[truth].mean() + (~called[~truth]).mean()) / 2
    assert evaluate(scores, members).accuracy_oracle == pytest.approx(expected)


@given(judged())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_metrics_do_not_change_under_increasing_transforms(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    ranks = stats.rankdata(scores.ravel(), method="dense").reshape(scores.shape).astype(np.float64)
    assert evaluate(scores, members) == evaluate(ranks, members)


@given(judged())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_negated_scores_mirror_the_auc(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    there, back = evaluate(scores, members), evaluate(-scores, members)
    assert there.auc + back.auc == pytest.approx(1)
    assert there.auc_low + back.auc_high == pytest.approx(1)


@pytest.mark.parametrize(("mu", "auc"), [(0.5, 0.638163), (1.0, 0.76025), (2.0, 0.921350)])
def test_gaussian_auc(mu: float, auc: float) -> None:
    assert evaluate(*gaussian_grid(mu, 20_000)).auc == pytest.approx(auc, abs=2e-5)


def test_gaussian_tpr_at_a_thousandth() -> None:
    rate = evaluate(*gaussian_grid(1.0, 100_000)).tpr["0.001"]
    assert rate.value == pytest.approx(0.018298, abs=2e-4)


def test_correctness_attack() -> None:
    """Train accuracy 100 %, test accuracy 67.3 %: balanced accuracy (1 + 1 - 0.673) / 2."""
    members = (np.arange(2000) < 1000)[None].repeat(2, axis=0)
    right = np.ones((2, 2000))
    right[:, 1673:] = 0
    metrics = evaluate(right, members)
    assert metrics.balanced_accuracy == pytest.approx(0.6635)
    assert metrics.accuracy_oracle == pytest.approx(0.6635)
    assert metrics.auc == pytest.approx(0.6635)


def test_perfect_separation_is_one_but_not_certain() -> None:
    members = (np.arange(40) < 20)[None]
    metrics = evaluate(members.astype(np.float64), members)
    assert (metrics.auc, metrics.balanced_accuracy, metrics.auc_high) == (1, 1, 1)
    assert metrics.auc_interval == "delong"
    assert metrics.auc_low == pytest.approx(0.025 ** (1 / 20))


def test_identical_distributions_give_a_half(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 2, 10_000, 5_000)
    metrics = evaluate(random.standard_normal(members.shape), members)
    assert metrics.auc == pytest.approx(0.5, abs=0.01)


def test_ties_everywhere_call_nobody() -> None:
    members = (np.arange(2000) < 1000)[None].repeat(2, axis=0)
    metrics = evaluate(np.zeros((2, 2000)), members)
    assert (metrics.auc, metrics.balanced_accuracy, metrics.accuracy_oracle) == (0.5, 0.5, 0.5)
    assert metrics.tpr["0.01"].value == 0


def test_a_tie_group_is_taken_whole_or_not_at_all() -> None:
    """The top group has 60 members and 11 of 100 non-members: too many for an FPR of 10 %."""
    members = (np.arange(200) < 100)[None]
    scores = np.zeros((1, 200))
    scores[0, :60] = scores[0, 100:111] = 1
    assert evaluate(scores, members).tpr["0.1"].value == 0
    scores[0, 110] = 0
    assert evaluate(scores, members).tpr["0.1"].value == 0.6


@given(judged(), st.integers(50, 60))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_tpr_equals_a_search_over_all_thresholds(case: tuple[Floats, Bools], copies: int) -> None:
    scores, members = np.tile(case[0], copies), np.tile(case[1], copies)
    flat, truth = scores.ravel(), members.ravel()
    rate = evaluate(scores, members).tpr["0.1"]
    if (~truth).sum() < 100:
        assert rate.value is None
        return
    thresholds = [t for t in set(flat.tolist()) if (flat[~truth] >= t).mean() <= 0.1]
    assert rate.value == max([(flat[truth] >= t).mean() for t in thresholds], default=0)


def test_resolution_guard_says_what_is_missing() -> None:
    members = (np.arange(2001) < 1001)[None]
    tpr = evaluate(np.arange(2001.0)[None], members).tpr
    assert tpr["0.1"].value is not None and tpr["0.01"].reason is None
    for name, needed in (("0.001", 10_000), ("0.0001", 100_000)):
        rate = tpr[name]
        assert (rate.value, rate.low, rate.high) == (None, None, None)
        assert rate.reason == f"needs N >= {needed} non-members, has 1000"


def test_pooling_targets_counts_towards_the_resolution() -> None:
    members = (np.arange(1000) < 500)[None].repeat(2, axis=0)
    metrics = evaluate(np.tile(np.arange(1000.0), (2, 1)), members)
    assert (metrics.models, metrics.n_members, metrics.n_nonmembers) == (2, 1000, 1000)
    assert metrics.tpr["0.01"].value is not None


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=60, deadline=None, derandomize=True)
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
        error = math.sqrt(wins.mean(1).var(ddof=1) / 40 + wins.mean(0).var(ddof=1) / 50)
        low, high = delong(scores, members)
        assert low == pytest.approx(wins.mean() - 1.959964 * error, abs=1e-6)
        assert high == pytest.approx(min(wins.mean() + 1.959964 * error, 1), abs=1e-6)
        covered += low <= 0.76025 <= high
    assert 0.91 < covered / 300 < 0.99


def test_one_member_leaves_everything_open() -> None:
    metrics = evaluate(np.array([[3.0, 1.0, 2.0]]), np.array([[True, False, False]]))
    assert (metrics.auc_low, metrics.auc_high) == (0, 1)


def test_interval_over_models_is_students() -> None:
    members = (np.arange(20) < 10)[None].repeat(5, axis=0)
    scores = np.random.default_rng(0).standard_normal((5, 20)) + members
    aucs = [slow_auc(s, m) for s, m in zip(scores, members, strict=True)]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(aucs), scale=stats.sem(aucs))
    metrics = evaluate(scores, members)
    assert metrics.auc_interval == "t over models"
    assert (metrics.auc_low, metrics.auc_high) == pytest.approx((max(low, 0), min(high, 1)))


def test_a_single_target_is_not_judged_by_its_own_threshold() -> None:
    """Noise: the best threshold on the same scores always gains, an honest one does not."""
    random = np.random.default_rng(0)
    members = (np.arange(60) < 30)[None]
    results = [evaluate(random.standard_normal((1, 60)), members) for _ in range(200)]
    honest = np.mean([r.balanced_accuracy for r in results])
    assert honest == pytest.approx(0.5, abs=4 * 0.065 / math.sqrt(200))
    assert np.mean([r.accuracy_oracle for r in results]) > 0.57
    again = evaluate(np.arange(60.0)[None], members)
    assert again == evaluate(np.arange(60.0)[None], members)


def test_dict_form_is_json_with_exactly_these_keys() -> None:
    members = (np.arange(300) < 150)[None]
    plain = evaluate(np.arange(300.0)[None], members).asdict()
    assert list(plain) == [
        "models",
        "n_members",
        "n_nonmembers",
        "auc",
        "auc_low",
        "auc_high",
        "auc_pooled",
        "auc_interval",
        "balanced_accuracy",
        "accuracy_oracle",
        "advantage",
        "tpr",
    ]
    assert list(plain["tpr"]) == ["0.1", "0.01", "0.001", "0.0001"]
    assert set(plain["tpr"]["0.1"]) == {"value", "low", "high", "reason"}
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_nan_is_refused_with_its_target() -> None:
    scores = np.zeros((2, 4))
    scores[1, :3] = np.nan
    members = np.array([[True, False, True, False]] * 2)
    with pytest.raises(BenchError, match="target 1 hold 3 NaN of 4"):
        evaluate(scores, members)
    with pytest.raises(BenchError, match="target 1 hold 3 NaN of 4"):
        roc(scores, members)


@pytest.mark.parametrize("everyone", [True, False])
def test_one_sided_target_is_refused(everyone: bool) -> None:
    members = np.array([[True, False], [everyone, everyone]])
    with pytest.raises(BenchError, match=r"target 1 has [02] members and [02] non-members"):
        evaluate(np.zeros((2, 2)), members)


def test_shapes_must_agree() -> None:
    with pytest.raises(BenchError, match=r"\(1, 3\).*\(1, 2\)"):
        evaluate(np.zeros((1, 3)), np.array([[True, False]]))


@given(judged())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_short_roc_is_every_threshold_and_its_area_the_pooled_auc(
    case: tuple[Floats, Bools],
) -> None:
    scores, members = case
    curve = roc(scores, members)
    assert len(curve["fpr"]) == len(set(scores.ravel().tolist())) + 1
    area = np.trapezoid(curve["tpr"], curve["fpr"])
    assert area == pytest.approx(evaluate(scores, members).auc_pooled)


def test_long_roc_is_thinned_without_losing_its_shape() -> None:
    scores, members = gaussian_grid(1.0, 50_000)
    curve = roc(scores, members, points=300)
    fpr, tpr = np.array(curve["fpr"]), np.array(curve["tpr"])
    assert 150 < len(fpr) <= 300
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert (np.diff(fpr) >= 0).all() and (np.diff(tpr) >= 0).all()
    full = roc(scores, members, points=200_000)
    assert len(full["fpr"]) == 100_001
    assert set(zip(fpr, tpr, strict=True)) <= set(zip(full["fpr"], full["tpr"], strict=True))
    marks = np.geomspace(1e-4, 1, 200)
    drawn, true = np.interp(marks, fpr, tpr), np.interp(marks, full["fpr"], full["tpr"])
    assert np.abs(np.log10(drawn / true)).max() < 0.05  # of a decade: unseen on log-log axes
    assert np.abs(drawn - true).max() < 0.005


def test_roc_with_too_few_points_is_refused() -> None:
    with pytest.raises(BenchError, match="points=3"):
        roc(np.zeros((1, 2)), np.array([[True, False]]), points=3)


def verdict_at(auc: float, models: int = 8) -> tuple[bool, str]:
    scores, members = gaussian_grid(0.0, 500)
    metrics = evaluate(scores.repeat(models, axis=0), members.repeat(models, axis=0))
    return blind_verdict(Metrics(**{**vars(metrics), "auc": auc}))


def test_blind_verdict_turns_at_one_in_a_thousand() -> None:
    deviation = math.sqrt(1001 / (12 * 500 * 500) / 8)
    assert verdict_at(0.5 + 3.08 * deviation)[0]
    valid, message = verdict_at(0.5 + 3.10 * deviation)
    assert not valid
    assert "split is broken" in message and "8 targets" in message


def test_blind_verdict_is_one_sided() -> None:
    assert verdict_at(0.3)[0]


def test_null_variance_of_the_verdict_is_exact() -> None:
    random = np.random.default_rng(0)
    members = np.arange(30) < 12
    aucs = [slow_auc(random.permutation(30).astype(np.float64), members) for _ in range(4000)]
    assert np.var(aucs) == pytest.approx(31 / (12 * 12 * 18), rel=0.1)
