"""dpsur: when it stops, its charges, its stats, and what it refuses."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import DpEvent, NeighboringRelation, SelfComposedDpEvent
from pydantic import ValidationError
from torch import Tensor

from harness.accounting import check, price
from harness.accounting.accountants.rdp import epsilon_rdp
from harness.cli.members import page
from harness.jobs.run import Interrupted, Run
from methods.base import Budgeted, Problem, Released
from methods.dp_sgd import DpSgdParams
from methods.dp_sgd import method as dp_sgd
from methods.dpsur.dpsur import DpsurParams, method
from methods.mechanisms.events import SelectiveReleaseDpEvent
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

Runs = Callable[[int], "SimplestRun"]


def params(**given: Any) -> DpsurParams:
    usual = {"epsilon": 3.0, "batch_size": 12, "B_v": 6, "sigma_t": 2.0, "sigma_v": 1.5, "clip": 1.0}
    return DpsurParams(**({**usual, "learning_rate": 0.5} | given))


def renyi_price(event: DpEvent, count: int) -> float:
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    return epsilon_rdp(SelfComposedDpEvent(event, count), 1e-5, relation)


def bits(released: Released) -> list[Tensor]:
    return list(released.predictor.state_dict().values())


def same(one: Released, other: Released) -> bool:
    return all(map(torch.equal, bits(one), bits(other)))


def started(problem: Problem, run: "SimplestRun") -> list[Tensor]:
    return list(problem.model(run.seed("init")).state_dict().values())


@pytest.mark.slow
def test_all_attempts_fit_the_budget_and_one_more_does_not(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params()
    released = method.train(members, problem, chosen, run)
    ledger = released.ledger
    assert isinstance(ledger, SelectiveReleaseDpEvent)
    assert (ledger.attempts, ledger.accepted) == (released.stats["attempts"], released.stats["accepted"])
    guarantee = price(ledger, chosen.delta)
    assert guarantee.kind == "approximate-dp"
    check(guarantee, method.bound(chosen))
    assert guarantee.epsilon is not None
    one_more = price(SelfComposedDpEvent(ledger.event, ledger.attempts + 1), chosen.delta).epsilon
    assert one_more is not None
    assert guarantee.epsilon <= chosen.epsilon < one_more
    assert guarantee.epsilons["paper"] < guarantee.epsilons["rdp"]


@pytest.mark.slow
def test_the_papers_charge_counts_accepted_attempts(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(charge="paper")
    released = method.train(members, problem, chosen, run)
    ledger = released.ledger
    assert isinstance(ledger, SelectiveReleaseDpEvent)
    guarantee = price(ledger, chosen.delta)
    assert guarantee.epsilons["paper"] <= chosen.epsilon < renyi_price(ledger.event, ledger.accepted + 1)
    assert guarantee.epsilons["rdp"] == pytest.approx(renyi_price(ledger.event, ledger.attempts))
    assert guarantee.epsilon is not None
    assert guarantee.epsilon > chosen.epsilon, "what its attempts cost"
    assert guarantee.lower_bounds["worst_case"] > 0
    assert guarantee.kind == "claimed-disputed"
    assert any("after the fact" in line for line in guarantee.assumptions)
    assert isinstance(method, Budgeted)
    assert method.bound(chosen) is None


@pytest.mark.slow
def test_the_official_code_has_a_claim_and_no_price(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    released = method.train(members, problem, params(charge="paper", variant="official_code"), run)
    guarantee = price(released.ledger, 1e-5)
    assert (guarantee.kind, guarantee.epsilon) == ("claimed-disputed", None)
    assert set(guarantee.epsilons) == {"paper"}
    assert any("realised batch size" in line for line in guarantee.assumptions)


def test_accepting_everything_is_dp_sgd(problem: Problem, members: Records, run_of: Runs) -> None:
    """The proposals draw from the same streams as dp-sgd's steps, and tests do not disturb them."""
    chosen = params(beta=math.inf, momentum=0.9, steps=9)
    ours = method.train(members, problem, chosen, run_of(1))
    plain = DpSgdParams(
        noise_multiplier=2.0, batch_size=12, clip=1.0, learning_rate=0.5, momentum=0.9, steps=9
    )
    theirs = dp_sgd.train(members, problem, plain, run_of(1))
    assert ours.stats["accepted"] == 9
    for one, other in zip(bits(ours), bits(theirs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_proposals_do_not_depend_on_how_they_are_tested(
    problem: Problem, members: Records, run_of: Runs
) -> None:
    results = [
        method.train(members, problem, params(epsilon=30.0, beta=math.inf, steps=5, **given), run_of(1))
        for given in ({}, {"B_v": 30}, {"sigma_v": 4.0}, {"sigma_t": 2.5})
    ]
    assert same(results[0], results[1])
    assert same(results[0], results[2])
    assert not same(results[0], results[3])


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam"}])
def test_a_rejected_proposal_leaves_nothing_behind(
    optimizer: dict[str, Any],
    problem: Problem,
    members: Records,
    run: "SimplestRun",
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing passes so low a threshold: the weights stay at their start, and every attempt is charged."""
    with caplog.at_level(logging.WARNING, "methods"):
        released = method.train(members, problem, params(beta=-1e6, **optimizer), run)
    assert all(map(torch.equal, bits(released), started(problem, run)))
    assert released.stats["accepted"] == 0 < released.stats["attempts"]
    assert price(released.ledger, 1e-5).epsilons["paper"] == 0
    assert [record.message for record in caplog.records if "was accepted" in record.message]


def test_the_official_code_keeps_what_it_rejects_at_first(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(beta=-1e6, charge="paper", variant="official_code", steps=3)
    released = method.train(members, problem, chosen, run)
    assert released.stats["accepted"] == 0
    assert not any(map(torch.equal, bits(released), started(problem, run)))


def test_a_limit_before_the_budget_warns(
    problem: Problem, members: Records, run: "SimplestRun", caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "methods"):
        released = method.train(members, problem, params(steps=2), run)
    assert released.stats["attempts"] == 2
    assert any("steps = 2 attempts" in record.message for record in caplog.records)


def test_a_spent_budget_is_no_warning(
    problem: Problem, members: Records, run: "SimplestRun", caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "methods"):
        released = method.train(members, problem, params(), run)
    assert released.stats["accepted"] > 0
    assert not caplog.records


def test_it_learns_and_prefers_good_proposals(problem: Problem, members: Records, run: "SimplestRun") -> None:
    chosen = params(epsilon=40.0, sigma_t=1.0, sigma_v=0.8, B_v=20, learning_rate=1.0)
    released = method.train(members, problem, chosen, run)
    assert (released.predictor(members.x).argmax(1) == members.y).float().mean() > 0.8
    stats = released.stats
    for kind, expected in (("good", 0.5), ("bad", 0.10565)):
        count = stats["attempts"] * stats[f"{kind}_share"]
        assert count > 10
        slack = 4 * math.sqrt(expected * (1 - expected) / count)
        assert stats[f"{kind}_acceptance_rate"] == pytest.approx(expected, abs=slack)


@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen",
    [
        {"momentum": 0.9},
        {"optimizer": "adam", "learning_rate": 0.02},
        {"momentum": 0.9, "charge": "paper"},
        {"momentum": 0.9, "charge": "paper", "variant": "official_code"},
    ],
    ids=["momentum", "adam", "paper", "official code"],
)
def test_it_resumes_to_the_same_bits(
    chosen: dict[str, Any], problem: Problem, members: Records, tmp_path: Path
) -> None:
    def train(folder: Path | None = None, stop: Callable[[], bool] = lambda: False) -> Released:
        run = Run("seed", torch.device("cpu"), folder, stop=stop)
        return method.train(members, problem, params(epsilon=2.0, **chosen), run)

    whole = train()
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 4

    with pytest.raises(Interrupted):
        train(tmp_path, stop)
    resumed = train(tmp_path)
    assert same(whole, resumed)
    assert whole.stats == resumed.stats
    assert str(whole.ledger) == str(resumed.ledger)


def test_records_that_are_no_numbers_count_as_bad(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    """One non-finite member makes every validation batch it is in fail; other batches are not affected."""
    spoilt = Records(members.x.clone(), members.y)
    spoilt.x[0] = math.nan
    released = method.train(spoilt, problem, params(epsilon=30.0, B_v=60), run)
    assert released.stats["bad_share"] == 1
    assert all(torch.isfinite(each).all() for each in bits(released))


def test_secure_noise_cannot_be_repeated(problem: Problem, members: Records, run_of: Runs) -> None:
    chosen = params(secure=True, beta=math.inf, steps=2)
    assert not same(*(method.train(members, problem, chosen, run_of(0)) for _ in range(2)))


def test_everything_the_loop_changes_is_in_its_state(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    method.train(members, problem, params(steps=2), run)
    assert set(run.states["train"]) == {
        *("weights", "sampler", "validation", "variant", "allowance", "tally", "verdicts"),
    }


def test_the_released_model_is_clean(problem: Problem, members: Records, run: "SimplestRun") -> None:
    released = method.train(members, problem, params(steps=2), run)
    assert type(released.predictor) is type(problem.model(0))
    assert all(weight.grad is None for weight in released.predictor.parameters())
    assert not any(module._forward_hooks for module in released.predictor.modules())


def test_a_budget_too_small_for_one_attempt_is_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(sigma_t=0.2), run)
    assert (caught.value.field, caught.value.value) == ("epsilon", params().epsilon)


def test_a_validation_batch_larger_than_the_members_is_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(B_v=61), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("B_v", 61, (1, 60))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beta": -math.inf}, "beta = -inf accepts nothing"),
        ({"beta": math.nan}, "beta = nan accepts nothing"),
        ({"epsilon": math.inf}, "epsilon must be a finite number, got inf"),
        ({"epsilon": 0.0}, "epsilon must be > 0, got 0"),
        ({"sigma_t": 0.0}, "sigma_t must be > 0, got 0"),
        ({"sigma_v": 0.0}, "sigma_v must be > 0, got 0"),
        ({"C_v": 0.0}, "C_v must be > 0, got 0"),
        ({"clip": math.inf}, "clip must be a finite number, got inf"),
        ({"B_v": 0}, "B_v must be > 0, got 0"),
        ({"variant": "official_code"}, "cannot be charged 'all_attempts': the noisy sum is divided by the"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


def test_it_states_the_dispute() -> None:
    shown = page("method", "dpsur")
    assert shown["guarantee"] == "claimed-disputed"
    assert any("12 of the paper's 16 settings" in line for line in shown["caveats"])
