"""The strongest attack: facts of the specification, a slow reference, and the rule's invariants."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from harness.leakage.candidates import FAMILY, SPLITS, Candidates, choose
from harness.leakage.influence import Scored, auc, tpr
from harness.leakage.intervals import variance
from harness.leakage.matrices import Bools, Floats
from harness.leakage.roc import Roc
from harness.leakage.scoring import lira_bayes, rmia
from tests.harness.leakage.conftest import Signals

TENTH = Fraction(1, 10)


@pytest.fixture(scope="module")
def facts(signals: Signals) -> Candidates:
    """The specification's own three: the logit itself, lira and rmia."""
    scores = {
        "loss": signals.phi,
        "lira": lira_bayes(signals.phi, signals.members, ~signals.members),
        "rmia": rmia(signals.phi, signals.members, ~signals.members, signals.population),
    }
    return Candidates.of(scores, signals.members)


def test_the_family_is_declared_in_its_order() -> None:
    assert FAMILY == {"loss": "alone", "lira": "record", "rmia": "record"}
    assert list(FAMILY) == ["loss", "lira", "rmia"]


def test_facts_of_the_tpr(facts: Candidates) -> None:
    singles = [tpr(each, TENTH) for each in facts.scored.values()]
    assert [each.value for each in singles] == pytest.approx(
        [0.1722222222, 0.2305555556, 0.2388888889], abs=5e-11
    )
    errors = [variance(each.values, kind) ** 0.5 for each, kind in zip(singles, FAMILY.values(), strict=True)]
    assert errors == pytest.approx([0.02631916, 0.04984621, 0.04244817], abs=5e-9)
    found = facts.tpr(TENTH)
    assert found.value == pytest.approx(0.2055555556, abs=5e-11)
    assert found.chosen == {"loss": 6, "lira": 30, "rmia": 36}
    assert found.error == max(errors)


def test_facts_of_the_auc(facts: Candidates) -> None:
    found = facts.auc()
    assert found.value == pytest.approx(0.6599537037, abs=5e-11)
    assert found.chosen == {"loss": 0, "lira": 72, "rmia": 0}


def slow_calibrated(scores: Floats, members: Bools) -> Floats:
    outside = scores[~members]
    found = [-((outside > s).sum() + (outside == s).sum() / 2) / len(outside) for s in scores.ravel()]
    return np.array(found).reshape(scores.shape)


def slow_strongest(
    candidates: Candidates, figure: Callable[[Scored], float], per_target: Floats
) -> tuple[float, Floats]:
    """The specification, split by split and target by target."""
    models, names = candidates.any.models, list(candidates.scored)
    calibrated = {n: slow_calibrated(s.scores, s.members) for n, s in candidates.scored.items()}
    values, counts = [], np.zeros(len(names))
    for split in range(12):
        half = set(np.random.default_rng(split).permutation(models)[: models // 2].tolist())
        rows = []
        for m in range(models):
            others = [j for j in range(models) if (j in half) != (m in half)]
            pick = int(per_target[:, others].sum(axis=1).argmax())
            counts[pick] += 1
            rows.append(calibrated[names[pick]][m])
        values.append(figure(Scored(np.stack(rows), candidates.any.members)))
    return float(np.mean(values)), counts


@pytest.mark.parametrize("models", [3, 4, 7, 8])
def test_equals_the_textbook_rule(models: int, masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(models)
    members = masks(random, models, 60, 30)
    scores = {
        name: (10 * (random.standard_normal(members.shape) + gain * members)).round() / 10  # with ties
        for name, gain in zip(FAMILY, (0.5, 0.6, 0.7), strict=True)
    }
    candidates = Candidates.of(scores, members)
    each = np.stack([auc(scored).per_target for scored in candidates.scored.values()])
    value, counts = slow_strongest(candidates, lambda scored: auc(scored).value, each)
    found = candidates.auc()
    assert found.value == pytest.approx(value) and [*found.chosen.values()] == counts.tolist()
    each = np.stack([tpr(scored, TENTH).per_target for scored in candidates.scored.values()])
    value, counts = slow_strongest(candidates, lambda scored: tpr(scored, TENTH).value, each)
    rate = candidates.tpr(TENTH)
    assert rate.value == pytest.approx(value) and [*rate.chosen.values()] == counts.tolist()


def test_a_target_is_never_chosen_for_by_itself() -> None:
    """Whatever one target's values are, its own attack stays the same."""
    random = np.random.default_rng(0)
    per_target = random.random((3, 8))
    picks = choose(per_target)
    for m in range(8):
        changed = per_target.copy()
        changed[:, m] = random.permutation(changed[:, m]) * 100
        assert (choose(changed)[:, m] == picks[:, m]).all()


def test_equal_candidates_are_chosen_in_the_declared_order() -> None:
    assert (choose(np.ones((3, 6))) == 0).all()
    assert choose(np.ones((3, 6))).shape == (SPLITS, 6)


def test_one_attack_that_is_best_everywhere_is_the_figure(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(1)
    members = masks(random, 6, 400, 200)
    scores = {name: random.standard_normal(members.shape) for name in FAMILY}
    scores["rmia"] = scores["rmia"] + 2 * members
    candidates, best = Candidates.of(scores, members), Scored(scores["rmia"], members)
    assert candidates.auc().value == pytest.approx(auc(best).value)
    assert candidates.tpr(TENTH).value == pytest.approx(tpr(best, TENTH).value)
    drawn = candidates.drawn()
    np.testing.assert_allclose(drawn["tpr"], np.interp(drawn["fpr"], best.roc.fpr, best.roc.tpr), atol=1e-12)
    assert len(drawn["fpr"]) <= 300


def test_no_leakage_is_found_without_leakage_and_less_than_by_the_largest(
    masks: Callable[..., Bools],
) -> None:
    random = np.random.default_rng(2)
    honest, largest = [], []
    for _ in range(60):
        members = masks(random, 8, 200, 100)
        candidates = Candidates.of({name: random.standard_normal(members.shape) for name in FAMILY}, members)
        honest.append(candidates.auc().value)
        largest.append(max(auc(each).value for each in candidates.scored.values()))
    error = np.std(honest) / np.sqrt(60)
    assert abs(np.mean(honest) - 0.5) < 4 * error
    assert np.mean(largest) - np.mean(honest) > 4 * error, "the winner's bias"


def test_uninformative_scores_have_the_tpr_of_the_rate(masks: Callable[..., Bools]) -> None:
    members = masks(np.random.default_rng(0), 4, 50, 25)
    same = Candidates.of({name: np.zeros(members.shape) for name in FAMILY}, members)
    found = same.tpr(TENTH)
    assert (found.value, found.error, found.tied) == pytest.approx((0.1, 0, 1))
    assert same.auc().value == 0.5


def test_calibration_keeps_every_targets_auc(facts: Candidates) -> None:
    for scored, ranks in zip(facts.scored.values(), facts._ranks, strict=True):
        moved = Scored(-ranks.astype(np.float64), scored.members)
        np.testing.assert_allclose(auc(moved).per_target, auc(scored).per_target, atol=1e-12)
        assert Roc.of_calibrated(ranks, scored.members).at(TENTH) == pytest.approx(scored.roc.at(TENTH))


def test_pairs_that_do_not_count_change_nothing(masks: Callable[..., Bools]) -> None:
    """Whatever the scores of members that were set aside: neither the choice nor the figure sees them."""
    random = np.random.default_rng(0)
    members = masks(random, 5, 200, 100)
    evaluated = ~members | (random.random(members.shape) < 0.8)
    scores = {name: random.standard_normal(members.shape) + 0.5 * members for name in FAMILY}
    wild = {name: np.where(evaluated, each, 99.0) for name, each in scores.items()}
    one, other = (Candidates.of(each, members, evaluated) for each in (scores, wild))
    assert one.auc() == other.auc() and one.tpr(TENTH) == other.tpr(TENTH)
    assert one.drawn() == other.drawn()
    assert one.auc() != Candidates.of(scores, members).auc()
