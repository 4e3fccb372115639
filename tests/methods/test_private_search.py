"""private-search: what is drawn, what is released, and that the ledger covers it."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from pydantic import ValidationError

import methods
from harness.accounting import check, price
from harness.checks.method_contract import PROBLEM, make_model, make_records
from harness.jobs.run import Run
from harness.plan.declarations import uncounted
from harness.plan.solving import solve
from methods.base import Released
from methods.mechanisms.events import OneOfDpEvent, ParallelDpEvent
from methods.mechanisms.trial_count import POISSON, TrialCount
from methods.private_search import PrivateSearchParams, count_correct, method, score_noise
from workloads.base import Records
from workloads.devices import CPU
from workloads.errors import AccountingError, SpecError

MEMBERS = 60
QUICK: dict[str, Any] = {"base_epsilon": 8.0, "steps": 3, "batch_size": 8, "mean": 3.0, "shape": 1.0}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def solved(members: int = MEMBERS, **given: Any) -> PrivateSearchParams:
    found = solve(
        methods.family.get("private-search"), PrivateSearchParams(**{**QUICK, **given}), members, make_model
    )
    assert isinstance(found, PrivateSearchParams)
    return found


def trained(params: PrivateSearchParams, seed: str = "seed", run: Run | None = None) -> Released:
    return method.train(make_records(MEMBERS), PROBLEM, params, run or Run(seed, CPU))


def parts(event: DpEvent) -> tuple[OneOfDpEvent, DpEvent]:
    assert isinstance(event, RepeatAndSelectDpEvent) and isinstance(event.event, ParallelDpEvent)
    training, score = event.event.events
    assert isinstance(training, OneOfDpEvent)
    return training, score


# -- the ledger ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, POISSON])
def test_the_ledger_is_the_planned_one_whatever_was_drawn(shape: float) -> None:
    params = solved(shape=shape)
    planned = method.planned(params, MEMBERS)
    for number in range(5):
        assert trained(params, f"seed {number}").ledger == planned
    training, score = parts(planned)
    assert (planned.mean, planned.shape) == (3.0, shape)
    assert score == GaussianDpEvent(10.0)
    assert len(training.events) == 1, "learning rates do not change the price"


def test_candidates_of_different_cost_are_all_in_the_ledger_at_the_same_epsilon() -> None:
    params = solved(candidates=({"steps": 2}, {"steps": 6}, {"batch_size": 4}))
    training, _ = parts(method.planned(params, MEMBERS))
    assert len(training.events) == 3
    for event in training.events:
        assert price(event, 1e-5).epsilon == pytest.approx(8.0, rel=1.1e-3)
    assert trained(params).ledger == method.planned(params, MEMBERS)


def test_rates_come_from_the_expected_number_of_records() -> None:
    params, run = solved(holdout=0.5), Run("seed", CPU)
    trained(params, run=run)
    rates = {trial.ledger.event.sampling_probability for trial in run.trials}
    assert rates == {8 / 30}


def test_a_score_without_noise_has_no_finite_guarantee() -> None:
    exact = solved(score_noise=0.0)
    assert price(method.planned(exact, MEMBERS), 1e-5).kind == "none"
    released = trained(exact)
    assert parts(released.ledger)[1] == NonPrivateDpEvent()
    assert price(released.ledger, 1e-5).epsilon is None
    with pytest.raises(AccountingError) as caught:
        solved(epsilon=4.0, base_epsilon=None, score_noise=0.0)
    assert caught.value.field == "base_epsilon"


def test_a_search_costs_no_more_than_asked_and_a_training_less() -> None:
    params = solved(epsilon=4.0, base_epsilon=None)
    guarantee = price(method.planned(params, MEMBERS), params.delta)
    check(guarantee, 4.0)
    assert 3.99 < (guarantee.epsilon or 0) <= 4.0
    assert params.base_epsilon is not None and 1.0 < params.base_epsilon < 3.0
    training, _ = parts(method.planned(params, MEMBERS))
    assert price(training.events[0], params.delta).epsilon == pytest.approx(params.base_epsilon, rel=2e-3)


def test_the_run_refuses_a_ledger_that_does_not_cover_a_trial() -> None:
    params, run = solved(), Run("seed", CPU)
    trained(params, run=run)
    planned = method.planned(params, MEMBERS)
    training, score = parts(planned)
    cheaper = solved(base_epsilon=4.0)
    for wrong, field in (
        (method.planned(cheaper, MEMBERS), "trial"),
        (replace_part(planned, ParallelDpEvent((training, GaussianDpEvent(20.0)))), "beside"),
        (replace_part(planned, training), "beside"),
        (training.events[0], "ledger"),
    ):
        with pytest.raises(AccountingError) as caught:
            run.ledger(wrong)
        assert caught.value.field == field
    with pytest.raises(AccountingError) as caught:
        run.ledger()
    assert caught.value.field == "ledger"
    assert run.ledger(replace_part(planned, ParallelDpEvent((training, score)))) == planned


def replace_part(event: Any, part: DpEvent) -> DpEvent:
    return RepeatAndSelectDpEvent(part, event.mean, event.shape)


# -- what is drawn ---------------------------------------------------------------------------------


def test_the_number_of_trials_and_their_candidates_are_drawn_for_every_seed() -> None:
    params, numbers, names = solved(), Counter[int](), Counter[float]()
    for seed in range(40):
        run = Run(f"seed {seed}", CPU)
        stats = trained(params, run=run).stats
        assert stats.keys() == {"candidate"}, "the number of trials and other scores are not priced"
        assert [trial.name for trial in run.trials] == [f"trial-{each}" for each in range(len(run.trials))]
        numbers[len(run.trials)] += 1
        names[stats["candidate"]] += 1
    assert min(numbers) == 1 and max(numbers) > 4
    assert len(names) >= 6, "of 8 candidates, 40 winners"


def test_a_candidate_drawn_twice_is_trained_with_other_streams() -> None:
    params, run = solved(candidates=({},), mean=10.0), Run("seed 2", CPU)
    seeds: list[int] = []
    fresh = replace(PROBLEM, model=lambda seed: seeds.append(seed) or make_model(seed))  # type: ignore[func-returns-value]
    method.train(make_records(MEMBERS), fresh, params, run)
    assert len(run.trials) > 1
    assert len(set(seeds)) == len(run.trials), "one initial model each"
    losses = [tuple(series.values["loss"]) for series in run.phases.values()]
    assert len(set(losses)) == len(losses)


def test_records_are_held_out_by_independent_coins_and_set_aside() -> None:
    params, sizes = solved(), []
    for seed in range(30):
        aside = trained(params, f"seed {seed}").set_aside
        assert aside is not None
        sizes.append(len(aside))
    assert len(set(sizes)) > 5, "an exact share would be the same number every time"
    # 30 * 60 coins of 0.2: 360 +- 17
    assert 300 < sum(sizes) < 420


def test_held_out_records_do_not_reach_the_model_but_for_the_choice() -> None:
    params = solved(candidates=({},), shape=0.0, mean=1.0)
    members = make_records(MEMBERS)
    first = method.train(members, PROBLEM, params, Run("seed", CPU))
    assert first.set_aside is not None
    members.x[first.set_aside] += 100
    again = method.train(members, PROBLEM, params, Run("seed", CPU))
    for one, other in zip(first.predictor.parameters(), again.predictor.parameters(), strict=True):
        assert torch.equal(one, other)


def test_no_trial_releases_the_untrained_model() -> None:
    params = solved(shape=POISSON, mean=1.0)
    for seed in range(30):
        run = Run(f"seed {seed}", CPU)
        released = trained(params, run=run)
        if not run.trials:
            break
    assert run.trials == [] and released.stats == {"candidate": -1.0}
    untrained = make_model(run.seed("init"))
    for one, other in zip(released.predictor.parameters(), untrained.parameters(), strict=True):
        assert torch.equal(one, other)
    assert released.ledger == method.planned(params, MEMBERS), "it costs the same"


def test_the_best_score_wins() -> None:
    """With a noise of 0.001 records the winner is the model that predicts most held-out records."""
    useless: dict[str, Any] = {"learning_rate": 1e-9}
    params = solved(
        base_epsilon=900.0,
        score_noise=0.001,
        candidates=(useless, {"learning_rate": 1.0}),
        steps=30,
        mean=20.0,
    )
    members = make_records(MEMBERS)
    learnable = Records(members.x, (members.x[:, 0] > 0).long())
    winners = [
        method.train(learnable, PROBLEM, params, Run(f"seed {seed}", CPU)).stats["candidate"]
        for seed in range(5)
    ]
    assert winners == [1.0] * 5


def test_a_diverged_trial_keeps_its_place() -> None:
    """Its loss is not finite, its predictions count as wrong, and the search goes on."""
    params = solved(candidates=({"learning_rate": 1e38}, {"learning_rate": 0.1}), mean=10.0, score_noise=0.5)
    run = Run("seed 2", CPU)
    released = trained(params, run=run)
    assert released.stats == {"candidate": 1.0}
    lost = [series for series in run.phases.values() if any(map(math.isnan, series.values["loss"]))]
    assert lost, "some trial diverged"
    assert all(bool(each.isfinite().all()) for each in released.predictor.parameters())


def test_predictions_that_are_not_finite_are_wrong() -> None:
    records, model = make_records(20), make_model(0)
    right = int((model(records.x).argmax(1) == records.y).sum())
    assert count_correct(model, records) == right > 0
    records.x[:] = math.nan
    assert count_correct(model, records) == 0
    assert count_correct(model, records.take(torch.zeros(0, dtype=torch.int64))) == 0


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "shape"), [(1, POISSON), (7, POISSON), (7.5, 1.0), (30, 1.0)])
def test_the_cheaper_distribution_is_the_default(mean: float, shape: float) -> None:
    assert PrivateSearchParams(epsilon=1.0, mean=mean).trial_count() == TrialCount(mean, shape)


def test_the_noise_of_a_score_grows_with_the_records() -> None:
    params = PrivateSearchParams(epsilon=1.0)
    assert score_noise(1000, params) == 10
    assert score_noise(50_000, params) == 50
    assert score_noise(50_000, PrivateSearchParams(epsilon=1.0, score_noise=3.0)) == 3


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epsilon": 1.0, "mean": 0.5},
        {"epsilon": 1.0, "shape": -1.0},
        {"epsilon": 1.0, "candidates": ()},
        {"epsilon": 1.0, "candidates": ({"noise_multiplier": 1.0},)},
        {"epsilon": 1.0, "candidates": ({"epsilon": 100.0},)},
        {"epsilon": 1.0, "candidates": ({"learning_rte": 1.0},)},
        {"epsilon": 1.0, "candidates": ({"learning_rate": -1.0},)},
        {"epsilon": 1.0, "base": "nobody"},
        {"epsilon": 1.0, "base": "sgd"},
        {"epsilon": 1.0, "base": "dpis"},
        {"epsilon": 1.0, "base": "private-search"},
    ],
)
def test_bad_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PrivateSearchParams(**given)


def test_an_unsolved_search_does_not_train() -> None:
    with pytest.raises(SpecError) as caught:
        trained(PrivateSearchParams(**QUICK))
    assert caught.value.field == "noises"


def test_what_was_solved_for_is_no_part_of_a_configuration() -> None:
    assert {"base_epsilon", "noises", "epsilon", "delta"} <= uncounted(methods.family.get("private-search"))


@pytest.mark.slow
def test_a_gan_can_be_searched() -> None:
    candidates = tuple({"discriminator_rate": rate, "classifier_steps": 3} for rate in (1e-3, 1e-2))
    params = solved(base="dp-gan", candidates=candidates)
    assert trained(params).ledger == method.planned(params, MEMBERS)
    assert method.detached(params) is not None
    assert method.detached(solved()) is None
