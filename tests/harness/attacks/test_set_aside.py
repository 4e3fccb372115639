"""Members that were set aside: excluded from attacks and figures, included in every audit."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness.attacks import family
from harness.attacks.base import Audit, Bools, Evidence, Floats
from harness.attacks.parts import attribute_metrics
from harness.attacks.parts.attribute_metrics import Guesses
from harness.jobs.judge import judge
from harness.leakage.figures import evaluate, recompute
from harness.store.result import figures_of
from workloads.errors import BenchError


def test_an_audit_counts_them_as_its_coins_fell(from_phi: Callable[..., Evidence]) -> None:
    """A bound covers everything the method was given; leaving out heads but no tails would bias it."""
    random = np.random.default_rng(0)
    members = random.random((8, 60)) < 0.5
    evidence = replace(from_phi(4.0 * members + random.standard_normal(members.shape), members), canaries=40)
    aside = replace(evidence, set_aside=members & (random.random(members.shape) < 0.5))
    for name in ("audit-one-run", "audit-many-run"):
        audit = family.get(name)
        assert isinstance(audit, Audit)
        one, other = (audit.bound(each, audit.Params(), 1e-5) for each in (evidence, aside))
        assert one == other


def test_shadows_of_another_method_have_their_own(from_phi: Callable[..., Evidence]) -> None:
    members = np.array([[True, True, False], [True, False, True]])
    plain = from_phi(np.zeros((2, 3)), members)
    own, theirs = np.array([[True, False, False]] * 2), np.array([[False, True, False], [False, False, True]])
    evidence = replace(
        plain,
        set_aside=own,
        shadow_logits=plain.logits,
        shadow_population_logits=plain.population_logits,
        shadow_set_aside=theirs,
    )
    against = evidence.against(0)
    assert against.set_aside is not None
    assert against.set_aside.tolist() == [own[0].tolist(), theirs[1].tolist()]
    assert not replace(evidence, shadow_set_aside=None).against(0).set_aside[1].any()  # type: ignore[index]


@pytest.fixture
def judged() -> tuple[Floats, Bools, Bools]:
    """Scores of five targets with ties; about a third of the members set aside, of each another number."""
    random = np.random.default_rng(3)
    members = random.random((5, 700)) < 0.5
    scores: Floats = np.round(random.standard_normal(members.shape) + 0.8 * members, 1).astype(np.float64)
    return scores, members, ~(members & (random.random(members.shape) < 0.3))


def test_figures_are_those_of_the_pairs_that_count(judged: tuple[Floats, Bools, Bools]) -> None:
    scores, members, evaluated = judged
    found = evaluate(scores, members, "alone", evaluated=evaluated)
    alone = [
        evaluate(row[own][None], truth[own][None], "alone")
        for row, truth, own in zip(scores, members, evaluated, strict=True)
    ]
    assert found.auc == pytest.approx(np.mean([each.auc for each in alone]), abs=1e-12)
    pooled = evaluate(scores[evaluated][None], members[evaluated][None], "alone")
    assert found.auc_pooled == pytest.approx(pooled.auc, abs=1e-12)
    assert {rate: each.value for rate, each in found.tpr.items()} == {
        rate: each.value for rate, each in pooled.tpr.items()
    }
    assert (found.n_members, found.n_nonmembers) == (pooled.n_members, pooled.n_nonmembers)
    assert found.accuracy_oracle == pooled.accuracy_oracle


@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_the_score_of_a_record_set_aside_moves_nothing(
    value: float, judged: tuple[Floats, Bools, Bools]
) -> None:
    scores, members, evaluated = judged
    moved = np.where(evaluated, scores, value)
    whole = {"members": members, "set_aside": ~evaluated}
    one, other = (recompute({**whole, "scores": each}, "alone") for each in (scores, moved))
    assert one == other
    assert one != recompute({"members": members, "scores": moved}, "alone")


def test_all_that_count_on_one_side_cannot_be_judged(judged: tuple[Floats, Bools, Bools]) -> None:
    scores, members, _ = judged
    with pytest.raises(BenchError, match="target 0 has 0 members"):
        evaluate(scores, members, "alone", evaluated=~members)


def test_attribute_inference_leaves_them_out() -> None:
    members = np.array([[True, True, True, False, False], [True, True, False, True, False]])
    truth = np.zeros(5, dtype=np.int64)
    guessed = np.array([[0, 0, 1, 1, 0], [0, 0, 1, 1, 1]])
    guesses = Guesses("a", truth, guessed, np.ones(5, dtype=np.int64), 0.5)
    evaluated = np.array([[True, True, False, True, True], [True, True, True, False, True]])
    found = attribute_metrics.evaluate(guesses, members, 5, evaluated)
    assert (found.n_members, found.n_nonmembers) == (4, 4)
    assert found.accuracy_members == 1.0
    assert attribute_metrics.evaluate(guesses, members, 5).accuracy_members == pytest.approx(4 / 6)


def test_a_blind_check_evaluates_the_remaining_records(from_phi: Callable[..., Evidence]) -> None:
    """Setting aside all records with a feature leaves members that are distinguishable without any model."""
    random = np.random.default_rng(0)
    features = random.standard_normal((2000, 5), dtype=np.float32)
    members = np.stack([random.random(2000) < 0.5 for _ in range(4)])
    sound = from_phi(np.zeros(members.shape), members, features=features)
    chosen = replace(sound, set_aside=members & (features[:, 0] > 0.5))
    at_random = replace(sound, set_aside=members & (random.random(members.shape) < 0.3))
    blind = family.get("blind")
    valid = [
        figures_of(judge("blind", blind, each, blind.Params(), []).outcome)["metrics"]["valid"]
        for each in (sound, at_random, chosen)
    ]
    assert valid == [True, True, False]
