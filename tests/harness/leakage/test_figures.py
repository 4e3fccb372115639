"""The figures of a result: rules of evidence, limit cases, and payloads reproduced from stored scores."""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from harness.leakage import influence, intervals
from harness.leakage.candidates import FAMILY, Candidates
from harness.leakage.figures import METRICS, SAME, blind_verdict, evaluate, recompute, unmeasured
from harness.leakage.influence import Scored
from harness.leakage.intervals import Dependence
from harness.leakage.matrices import Bools, Floats
from harness.leakage.roc import RATES
from harness.leakage.scoring import lira_bayes, loss, rmia
from tests.harness.leakage.test_influence import slow_auc
from tests.harness.leakage.test_roc import gaussian_grid
from tests.harness.simulated import known
from workloads.errors import BenchError

SCORES = st.sampled_from([-math.inf, -1.0, -0.5, 0.0, 0.5, 1.0, 1e300, math.inf]) | st.floats(-3, 3)
NAMES = {
    *("version", "models", "n_members", "n_nonmembers", "auc", "auc_low", "auc_high", "auc_se", "auc_pooled"),
    *("interval", "balanced_accuracy", "balanced_accuracy_low", "balanced_accuracy_high", "accuracy_oracle"),
    *("advantage", "tpr", "note", "auc_chosen", "ppv_at_1pct", "ppv_at_1pct_low", "ppv_at_1pct_high"),
    *("agreement", "agreement_chance", "agreement_untrained", "record_tpr_p99"),
    *("records_exposed", "records_tested", "canaries", "valid", "message"),
}
"""What views, tables and reports read."""
TENTH = partial(influence.tpr, rate=RATES["0.1"])
RATE = {"value", "low", "high", "se", "reason", "tied", "note", "chosen"}


@st.composite
def judged(draw: st.DrawFn) -> tuple[Floats, Bools]:
    """Scores with ties and infinities, and masks with a member and a non-member in each row."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 8)))
    members = draw(hnp.arrays(np.bool_, shape))
    members[:, 0], members[:, 1] = True, False
    return draw(hnp.arrays(np.float64, shape, elements=SCORES)), members


def cell(masks: Callable[..., Bools], models: int, records: int = 400, gap: float = 0.7) -> dict[str, Any]:
    """Stored arrays of an attack on a synthetic cell, with its halves, and its signals."""
    random = np.random.default_rng(models)
    members = masks(random, models, records, records // 2)
    phi = random.normal(1, 2, records) + random.normal(size=members.shape) + gap * members
    stored = {"scores": lira_bayes(phi, members, ~members), "members": members, "phi": phi}
    return stored | {"half_scores": apart(phi, members)}


def apart(phi: Floats, members: Bools) -> Floats:
    """Every model scored with its own half as shadows."""
    scores = np.empty(phi.shape)
    for half in intervals.halves(len(phi)):
        inside = members[half]
        scores[half] = lira_bayes(phi[half], inside, ~inside) if len(inside) else 0.0
    return scores


@given(judged())
@settings(max_examples=80, derandomize=True)
def test_auc_equals_all_pairs(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    metrics = evaluate(scores, members, "alone")
    each = [slow_auc(s, m) for s, m in zip(scores, members, strict=True)]
    assert metrics.auc == pytest.approx(np.mean(each))
    assert metrics.auc_pooled == pytest.approx(slow_auc(scores.ravel(), members.ravel()))
    auc = known(metrics.auc)
    assert 0 <= known(metrics.auc_low) <= auc + 1e-12
    assert auc - 1e-12 <= known(metrics.auc_high) <= 1


@given(judged())
@settings(max_examples=60, derandomize=True)
def test_oracle_is_the_best_threshold_on_the_same_scores(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    flat, truth = scores.ravel(), members.ravel()
    gains = [(flat[truth] >= t).mean() - (flat[~truth] >= t).mean() for t in flat]
    expected = (1 + max(0.0, *gains)) / 2
    assert evaluate(scores, members, "alone").accuracy_oracle == pytest.approx(expected)


@given(judged(), st.sampled_from(["alone", "record", "learned"]))
@settings(max_examples=60, derandomize=True)
def test_metrics_do_not_change_under_increasing_transforms(
    case: tuple[Floats, Bools], dependence: intervals.Dependence
) -> None:
    scores, members = case
    ranks = stats.rankdata(scores.ravel(), method="dense").reshape(scores.shape).astype(np.float64)
    assert evaluate(scores, members, dependence) == evaluate(ranks, members, dependence)


@given(judged())
@settings(max_examples=60, derandomize=True)
def test_negated_scores_mirror_the_auc(case: tuple[Floats, Bools]) -> None:
    scores, members = case
    there, back = evaluate(scores, members, "alone"), evaluate(-scores, members, "alone")
    assert known(there.auc) + known(back.auc) == pytest.approx(1)
    assert known(there.auc_low) + known(back.auc_high) == pytest.approx(1)
    both = known(there.balanced_accuracy) + known(back.balanced_accuracy)
    assert both <= 1 + 1e-12 or (members.mean(axis=1) != 0.5).any()


@pytest.mark.parametrize(("mu", "auc"), [(0.5, 0.638163), (1.0, 0.76025), (2.0, 0.921350)])
def test_gaussian_auc(mu: float, auc: float) -> None:
    assert evaluate(*gaussian_grid(mu, 20_000), "alone").auc == pytest.approx(auc, abs=2e-5)


def test_gaussian_balanced_accuracy() -> None:
    """Half of the records are members, so the cut lies half way: (1 + TPR - FPR) / 2 = Phi(mu / 2)."""
    found = evaluate(*gaussian_grid(1.0, 20_000), "alone")
    assert found.balanced_accuracy == pytest.approx(stats.norm.cdf(0.5), abs=1e-4)
    assert found.advantage == pytest.approx(2 * known(found.balanced_accuracy) - 1)


def test_correctness_attack() -> None:
    """Train accuracy 100 %, test accuracy 67.3 %: 1,000 of 1,673 right records are called, ties shared."""
    members = (np.arange(2000) < 1000)[None].repeat(2, axis=0)
    right = np.ones((2, 2000))
    right[:, 1673:] = 0
    metrics = evaluate(right, members, "alone")
    assert metrics.balanced_accuracy == pytest.approx((1 + (1000 - 673) / 1673) / 2)
    assert metrics.accuracy_oracle == metrics.auc == pytest.approx(0.6635)


def test_perfect_separation_is_one_but_not_certain() -> None:
    members = (np.arange(400) < 200)[None].repeat(3, axis=0)
    metrics = evaluate(members.astype(np.float64), members, "record")
    bound = 0.025 ** (1 / 200)
    assert (metrics.auc, metrics.auc_low, metrics.auc_high) == pytest.approx((1, bound, 1))
    assert (metrics.balanced_accuracy, metrics.balanced_accuracy_low) == pytest.approx((1, bound))
    rate = metrics.tpr["0.1"]
    assert (rate.value, rate.low, rate.high) == pytest.approx((1, bound, 1))
    wrong = evaluate((~members).astype(np.float64), members, "record")
    assert (wrong.auc, wrong.auc_low, wrong.auc_high) == pytest.approx((0, 0, 1 - bound))
    lone = evaluate(members[:1].astype(np.float64), members[:1], "record")
    assert (lone.interval, lone.note) == ("delong", "over records of one model")
    assert lone.auc_low == pytest.approx(bound)


@pytest.mark.parametrize("models", [1, 2, 8])
def test_equal_scores_are_the_prior_without_any_doubt(models: int) -> None:
    """An uninformative attack has TPR = FPR, without variance."""
    members = (np.arange(4000) < 2000)[None].repeat(models, axis=0)
    metrics = evaluate(np.zeros(members.shape), members, "record")
    for value in (metrics.auc, metrics.auc_low, metrics.auc_high, metrics.balanced_accuracy):
        assert value == 0.5
    assert metrics.accuracy_oracle == 0.5
    for label in ("0.1", "0.01"):
        rate = metrics.tpr[label]
        assert rate.low == rate.high == rate.value == pytest.approx(float(label))
        assert (rate.tied, rate.reason) == (1, None)
        assert rate.note == "interpolated: 100 % of non-members share the score at the threshold"
    assert metrics.note is not None and SAME in metrics.note
    assert metrics.ppv_at_1pct == pytest.approx(0.1)


def test_resolution_guard_states_what_is_missing() -> None:
    members = (np.arange(2001) < 1001)[None]
    tpr = evaluate(np.arange(2001.0)[None], members, "alone").tpr
    assert tpr["0.1"].value is not None and tpr["0.01"].reason is None
    for name, needed in (("0.001", 10_000), ("0.0001", 100_000)):
        rate = tpr[name]
        assert {rate.value, rate.low, rate.high, rate.se, rate.tied} == {None}
        assert rate.reason == f"needs N >= {needed} non-members, has 1000"


def test_pooling_targets_counts_towards_the_resolution() -> None:
    members = (np.arange(1000) < 500)[None].repeat(2, axis=0)
    metrics = evaluate(np.tile(np.arange(1000.0), (2, 1)), members, "alone")
    assert (metrics.models, metrics.n_members, metrics.n_nonmembers) == (2, 1000, 1000)
    assert metrics.tpr["0.01"].value is not None


def test_few_models_are_noted(masks: Callable[..., Bools]) -> None:
    notes = []
    for models in (1, 2, 3, 4):
        stored = cell(masks, models)
        notes.append(evaluate(stored["scores"] + stored["phi"], stored["members"], "alone").note)
    assert notes == ["over records of one model", "2 models", "3 models", None]


def test_one_member_leaves_everything_open() -> None:
    metrics = evaluate(np.array([[3.0, 1.0, 2.0]]), np.array([[True, False, False]]), "alone")
    assert (metrics.auc_low, metrics.auc_high, metrics.auc_se) == (0, 1, None)


@pytest.mark.parametrize("dependence", ["alone", "record", "learned"])
def test_every_interval_is_that_of_the_declared_dependence(
    dependence: intervals.Dependence, masks: Callable[..., Bools]
) -> None:
    stored = cell(masks, 9, records=600)
    scored = Scored(stored["scores"], stored["members"])
    halves = intervals.scored_apart(stored["half_scores"], scored, dependence)
    found = evaluate(stored["scores"], stored["members"], dependence, stored["half_scores"])
    area = intervals.estimate(influence.auc, scored, dependence, halves)
    assert (found.auc_se, (found.auc_low, found.auc_high)) == (area.error, intervals.of_share(area, 9, 300))
    rate = found.tpr["0.1"]
    one = intervals.estimate(TENTH, scored, dependence, halves)
    assert (rate.se, (rate.low, rate.high)) == (one.error, intervals.of_rate(one, 9, 2700))


def test_halves_narrow_the_interval_where_records_differ(masks: Callable[..., Bools]) -> None:
    """Records that leak in every cell are no uncertainty about other seeds."""
    random = np.random.default_rng(0)
    members = masks(random, 32, 400, 200)
    gaps = random.gamma(0.5, 2.0, 400)
    phi = random.normal(1, 2, 400) + random.normal(size=members.shape) + gaps * members
    scores = lira_bayes(phi, members, ~members)
    with_halves = evaluate(scores, members, "record", apart(phi, members))
    without = evaluate(scores, members, "record")
    assert (with_halves.interval, without.interval) == ("two-way", "two-way, no halves")
    assert with_halves.auc_se is not None and without.auc_se is not None
    assert with_halves.auc_se < 0.9 * without.auc_se
    assert with_halves.agreement is not None and without.agreement is None
    assert with_halves.agreement > with_halves.agreement_chance  # type: ignore[operator]


def test_balanced_accuracy_learns_no_threshold() -> None:
    """Noise: the best threshold on the same scores gains, calling as many as there are members does not."""
    random = np.random.default_rng(0)
    members = (np.arange(60) < 30)[None]
    results = [evaluate(random.standard_normal((1, 60)), members, "alone") for _ in range(200)]
    honest = np.mean([found.balanced_accuracy for found in results])
    assert honest == pytest.approx(0.5, abs=4 * 0.065 / math.sqrt(200))
    assert np.mean([found.accuracy_oracle for found in results]) > 0.57


def test_figures_of_single_records_need_sixteen_models_and_signals(masks: Callable[..., Bools]) -> None:
    for models, given_ in ((15, True), (16, True), (16, False)):
        stored = cell(masks, models, gap=2.0)
        phi = stored["phi"] if given_ else None
        found = evaluate(stored["scores"], stored["members"], "record", stored["half_scores"], phi)
        known = models >= 16 and given_
        assert (found.records_exposed is not None, found.records_tested is not None) == (known, known)
        assert (found.record_tpr_p99 is not None) == (models >= 16)


def figures_of(stored: Mapping[str, Any], dependence: Dependence, **how: Any) -> dict[str, Any]:
    """The figures as stored in a result."""
    found: dict[str, Any] = recompute(stored, dependence, **how).model_dump(exclude={"dependence"})
    return found


def test_the_dict_form_is_json_with_exactly_these_keys(masks: Callable[..., Bools]) -> None:
    stored = cell(masks, 16)
    plain = figures_of(stored, "record")["metrics"]
    assert set(plain) == NAMES
    assert list(plain["tpr"]) == ["0.1", "0.01", "0.001", "0.0001"]
    assert all(set(rate) == RATE for rate in plain["tpr"].values())
    assert plain["version"] == METRICS == 2
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert set(unmeasured(stored["members"], ~stored["members"], "why").model_dump()) == NAMES


def test_stored_scores_reproduce_the_figures(masks: Callable[..., Bools]) -> None:
    stored = cell(masks, 16)
    found = figures_of(stored, "record")
    scores, members = stored["scores"], stored["members"]
    expected = evaluate(scores, members, "record", stored["half_scores"], stored["phi"])
    assert found["metrics"] == {**expected.model_dump(), "canaries": None}
    older = {name: stored[name] for name in ("scores", "members")}
    assert figures_of(older, "record")["metrics"]["interval"] == "two-way, no halves"
    assert figures_of(older, "record")["metrics"]["records_exposed"] is None


def test_canaries_are_judged_apart(masks: Callable[..., Bools]) -> None:
    """The last records; pooled over all targets, because coins are independent."""
    stored = cell(masks, 8)
    found = figures_of(stored, "record", canaries=100)["metrics"]
    cut = {name: each[:, :300] for name, each in stored.items()}
    assert {**found, "canaries": None} == figures_of(cut, "record")["metrics"]
    coins = Scored(stored["scores"][:, 300:].reshape(1, -1), stored["members"][:, 300:].reshape(1, -1))
    alone = evaluate(coins.scores, coins.members, "alone").model_dump()
    assert found["canaries"] == {name: alone[name] for name in ("auc", "auc_low", "auc_high", "tpr")}
    spread = intervals.estimate(TENTH, coins, "alone")
    assert found["canaries"]["tpr"]["0.1"]["se"] == spread.error


@pytest.mark.parametrize("which", ["scores", "strongest"])
def test_members_that_were_set_aside_are_kept_out_of_every_figure(
    which: str, masks: Callable[..., Bools]
) -> None:
    stored = cell(masks, 16) if which == "scores" else family(masks, 16)
    stored["set_aside"] = stored["members"] & (np.random.default_rng(0).random(stored["members"].shape) < 0.2)
    found = figures_of(stored, "record", canaries=50)
    wild = {
        name: np.where(stored["set_aside"], 99.0, each) if each.dtype == np.float64 else each
        for name, each in stored.items()
    }
    assert figures_of(wild, "record", canaries=50) == found
    counted = (stored["members"] & ~stored["set_aside"])[:, :-50]
    assert found["metrics"]["n_members"] == counted.sum()
    nobody = {**stored, "set_aside": np.zeros_like(stored["members"])}
    del stored["set_aside"]
    assert figures_of(nobody, "record", canaries=50) == figures_of(stored, "record", canaries=50)


def test_a_lone_target_leaves_them_out_too(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 1, 300, 150)
    scores = random.standard_normal(members.shape) + members
    evaluated = ~members | (random.random(members.shape) < 0.7)
    found = evaluate(scores, members, "alone", evaluated=evaluated)
    cut = evaluate(scores[evaluated][None], members[evaluated][None], "alone")
    assert (found.auc, found.auc_low, found.auc_high) == pytest.approx((cut.auc, cut.auc_low, cut.auc_high))
    assert found.balanced_accuracy == pytest.approx(cut.balanced_accuracy)


def test_canaries_of_one_side_have_no_figures() -> None:
    members = np.array([[True, False, True, True]] * 2)
    found = figures_of({"scores": np.arange(8.0).reshape(2, 4), "members": members}, "alone", canaries=2)
    canaries = found["metrics"]["canaries"]
    assert canaries["auc"] is None and "2 members" not in canaries["tpr"]["0.1"]["reason"]
    assert "0 non-members" in canaries["tpr"]["0.1"]["reason"]


@pytest.mark.parametrize("checks_split", [True, False])
def test_models_that_trained_on_the_whole_pool_have_nulls_with_the_reason(checks_split: bool) -> None:
    members = np.ones((3, 20), dtype=np.bool_)
    found = figures_of(
        {"members": members, "scores": np.zeros(members.shape)}, "alone", checks_split=checks_split
    )
    metrics = found["metrics"]
    assert metrics["auc"] is None and "20 members and 0 non-members" in metrics["note"]
    assert all(rate["reason"] == metrics["note"] for rate in metrics["tpr"].values())
    assert (metrics["n_members"], metrics["n_nonmembers"]) == (60, 0)
    assert found["roc"] == {"fpr": [], "tpr": []}
    assert set(metrics) == NAMES and metrics["valid"] is None
    assert (metrics["message"] == metrics["note"]) is checks_split
    with pytest.raises(BenchError, match="0 non-members"):
        evaluate(np.zeros(members.shape), members, "alone")


def family(masks: Callable[..., Bools], models: int) -> dict[str, Any]:
    stored = cell(masks, models, records=800)
    population = np.random.default_rng(0).normal(1, 2, 100) + np.zeros((models, 1))
    return {
        "scores/loss": loss(stored["phi"]),
        "scores/lira": stored["scores"],
        "scores/rmia": rmia(stored["phi"], stored["members"], ~stored["members"], population),
        "members": stored["members"],
        "phi": stored["phi"],
    }


def test_strongest_has_the_same_keys_and_names_what_it_chose(masks: Callable[..., Bools]) -> None:
    stored = family(masks, 16)
    found = figures_of(stored, "record")
    metrics = found["metrics"]
    assert set(metrics) == NAMES
    candidates = Candidates.of({name: stored[f"scores/{name}"] for name in FAMILY}, stored["members"])
    area = candidates.auc()
    assert (metrics["auc"], metrics["auc_se"], metrics["auc_chosen"]) == (area.value, area.error, area.chosen)
    assert sum(metrics["auc_chosen"].values()) == 12 * 16
    rate = metrics["tpr"]["0.01"]
    assert rate["low"] < rate["value"] < rate["high"] and sum(rate["chosen"].values()) == 12 * 16
    assert metrics["tpr"]["0.001"]["chosen"] is None and "needs N >=" in metrics["tpr"]["0.001"]["reason"]
    assert metrics["records_tested"] > 0 and metrics["balanced_accuracy"] is None
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_strongest_over_pool_records_where_there_are_canaries(masks: Callable[..., Bools]) -> None:
    stored = family(masks, 8)
    cut = {name: each[:, :700] for name, each in stored.items()}
    assert figures_of(stored, "record", canaries=100) == figures_of(cut, "record")


def test_strongest_needs_the_whole_family(masks: Callable[..., Bools]) -> None:
    stored = family(masks, 4)
    del stored["scores/rmia"]
    metrics = figures_of(stored, "record")["metrics"]
    assert metrics["auc"] is None and "needs loss, lira, rmia" in metrics["note"]


def verdict_at(auc: float, models: int = 8) -> tuple[bool, str]:
    scores, members = gaussian_grid(0.0, 500)
    found = evaluate(scores.repeat(models, axis=0), members.repeat(models, axis=0), "alone")
    return blind_verdict(found.model_copy(update={"auc": auc}))


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


def test_metrics_of_the_blind_check_carry_its_verdict(masks: Callable[..., Bools]) -> None:
    members = masks(np.random.default_rng(0), 3, 400, 200)
    found = figures_of({"scores": members.astype(np.float64), "members": members}, "alone", checks_split=True)
    assert found["metrics"]["valid"] is False and "split is broken" in found["metrics"]["message"]


def test_identical_distributions_give_a_half(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 2, 10_000, 5_000)
    metrics = evaluate(random.standard_normal(members.shape), members, "alone")
    assert metrics.auc == pytest.approx(0.5, abs=0.01)
    assert metrics.balanced_accuracy == pytest.approx(0.5, abs=0.01)
    assert metrics.tpr["0.01"].value == pytest.approx(0.01, abs=0.004)
