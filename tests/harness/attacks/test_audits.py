"""The audits on simulated logits: they detect leakage and raise no false alarm."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.attacks import family
from harness.attacks.audit_many_run import AuditManyRun, AuditManyRunParams
from harness.attacks.audit_one_run import AuditOneRun, AuditOneRunParams
from harness.attacks.base import Audit, Evidence, Floats
from harness.jobs.judge import judge
from harness.store.outcomes import AuditOutcome, PricedGuarantee
from workloads.errors import BenchError

FromPhi = Callable[..., Evidence]
CANARIES, PEOPLE, MODELS = 64, 30, 4


def with_canaries(
    from_phi: FromPhi, strength: float, seed: int, models: int = MODELS, count: int = CANARIES
) -> Evidence:
    """Coins, and logits that are higher by `strength` for canaries that are members."""
    random = np.random.default_rng(seed)
    members = random.random((models, PEOPLE + count)) < 0.5
    phi: Floats = random.standard_normal(members.shape)
    phi[:, PEOPLE:] += strength * members[:, PEOPLE:]
    return replace(from_phi(phi, members), canaries=count)


@pytest.mark.slow
def test_null_scores_audit_to_zero(from_phi: FromPhi) -> None:
    draws = 1000
    bounds = [
        AuditOneRun().bound(with_canaries(from_phi, 0.0, seed, models=1), AuditOneRunParams(), 1e-5).epsilon
        for seed in range(draws)
    ]
    assert sum(bound > 0 for bound in bounds) <= 0.05 * draws
    few = [
        AuditManyRun()
        .bound(with_canaries(from_phi, 0.0, seed, models=40, count=1), AuditManyRunParams(), 1e-5)
        .epsilon
        for seed in range(200)
    ]
    assert sum(bound > 0 for bound in few) <= stats.binom.ppf(1 - 1e-4, 200, 0.05)


def test_one_run_finds_more_the_more_there_is(from_phi: FromPhi) -> None:
    weak, strong, perfect = (
        AuditOneRun().bound(with_canaries(from_phi, strength, 0), AuditOneRunParams(), 1e-5)
        for strength in (1.0, 2.5, 20.0)
    )
    assert 0 < weak.epsilon < strong.epsilon < perfect.epsilon
    assert perfect.correct == perfect.guesses and perfect.trials == MODELS * CANARIES
    assert 3 < perfect.epsilon < np.log(perfect.guesses)


def test_searching_for_the_best_number_of_guesses_is_paid_for(from_phi: FromPhi) -> None:
    evidence = with_canaries(from_phi, 20.0, 0)
    fixed = AuditOneRun().bound(evidence, AuditOneRunParams(share=0.25, sides="both"), 1e-5)
    searched = AuditOneRun().bound(evidence, AuditOneRunParams(), 1e-5)
    assert fixed.guesses == MODELS * CANARIES // 2
    assert fixed.epsilon > searched.epsilon - 0.5
    one = AuditOneRun().bound(evidence, AuditOneRunParams(share=0.25, sides="both", confidence=0.999), 1e-5)
    assert one.epsilon < fixed.epsilon


def test_many_runs_test_a_threshold_chosen_on_other_models(from_phi: FromPhi) -> None:
    evidence = with_canaries(from_phi, 20.0, 0, models=400, count=1)
    found = AuditManyRun().bound(evidence, AuditManyRunParams(), 1e-5)
    assert found.trials == found.guesses == found.correct == 200
    assert found.epsilon == pytest.approx(3.2, abs=0.3)  # about 100 perfect runs on each side


def test_models_are_not_judged_by_a_threshold_that_only_they_could_have_chosen(from_phi: FromPhi) -> None:
    """Models of odd index separate their canary as well as those of even index, at lower scores."""
    members = np.tile([[True], [True], [False], [False]], (50, 1))
    phi = np.where(members, 1.0, 0.0)
    phi[1::2] -= 5.0
    evidence = replace(from_phi(phi, members), canaries=1)
    found = AuditManyRun().bound(evidence, AuditManyRunParams(), 1e-5)
    assert (found.epsilon, found.correct, found.trials) == (0.0, 50, 100)


def test_an_audit_without_canaries_is_refused(from_phi: FromPhi) -> None:
    evidence = replace(with_canaries(from_phi, 1.0, 0), canaries=0)
    for name in family.names():
        attack = family.get(name)
        if isinstance(attack, Audit):
            with pytest.raises(BenchError, match="no canaries to audit"):
                judge(name, attack, evidence, attack.Params(), [])


def test_a_canary_that_does_not_exist_is_refused(from_phi: FromPhi) -> None:
    with pytest.raises(BenchError) as caught:
        AuditManyRun().bound(with_canaries(from_phi, 1.0, 0), AuditManyRunParams(canary=64), 1e-5)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("canary", 64, 63)


@pytest.mark.parametrize(("price", "alarm"), [(0.5, True), (50.0, False), (None, False)])
def test_a_bound_above_the_price_is_an_alarm(from_phi: FromPhi, price: float | None, alarm: bool) -> None:
    guarantee = PricedGuarantee(
        kind="approximate-dp",
        epsilon=price,
        delta=1e-6,
        adjacency="add-or-remove-one",
        accountant="pld",
        epsilons={"paper": 0.1},
    )
    guarantees = [guarantee] * MODELS
    made = judge(
        "audit-one-run", AuditOneRun(), with_canaries(from_phi, 20.0, 0), AuditOneRunParams(), guarantees
    )
    assert isinstance(made.outcome, AuditOutcome)
    found = made.outcome.audit
    assert found.alarm is alarm and found.epsilon_priced == price
    assert found.delta == 1e-6 and found.epsilon_paper == 0.1
    assert (found.message is not None) == alarm
