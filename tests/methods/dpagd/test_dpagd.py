"""dpagd: budgets in zCDP, measurements that add up, and both variants."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from dp_accounting import ZCDpEvent
from pydantic import ValidationError

from harness.accounting import price
from harness.jobs.run import Interrupted, Run
from methods.base import Budgeted, Problem, Released
from methods.dpagd.adaptive_descent import Measured, StepGrid, whole_budget
from methods.dpagd.adaptive_descent_code import UNPAID, argmin_after_added_noise, cumulative_losses
from methods.dpagd.dpagd import DpagdParams, method
from methods.dpagd.zcdp import ZcdpBudget, gaussian_deviation, pure_epsilon, rho_of
from methods.mechanisms.events import ClaimedDpEvent
from methods.mechanisms.line_search import LineSearch
from tests.methods.conftest import SimplestRun
from workloads.base import Records
from workloads.errors import SpecError

CODE: dict[str, Any] = {"variant": "official_code", "batch_size": 10, "sigma_t": 3.0, "sigma_v": 3.0}


def params(**given: Any) -> DpagdParams:
    return DpagdParams(**({"epsilon": 8.0} | given))


def test_the_papers_conversion() -> None:
    assert rho_of(1, 1e-5) == pytest.approx(0.02081994, abs=5e-9)
    for epsilon in (0.1, 1.0, 8.0):
        rho = rho_of(epsilon, 1e-5)
        assert rho + 2 * math.sqrt(rho * math.log(1e5)) == pytest.approx(epsilon)
    assert price(ZCDpEvent(rho_of(1, 1e-5)), 1e-5).epsilons["rdp_classic"] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_the_budget_is_that_of_epsilon(epsilon: float, run: "SimplestRun") -> None:
    rho = whole_budget(params(epsilon=epsilon), run)
    found = price(ZCDpEvent(rho), 1e-5).epsilon
    assert found is not None
    assert 0.998 * epsilon < found <= epsilon
    assert rho > rho_of(epsilon, 1e-5)


def test_a_budget_admits_its_number_of_shares_and_no_more() -> None:
    budget = ZcdpBudget(0.7)
    for _ in range(120):
        assert budget.admits(0.7 / 120)
        budget.spend(0.7 / 120)
    assert not budget.admits(1e-9)
    other = ZcdpBudget(0.7)
    other.load_state_dict(budget.state_dict())
    assert other.spent == budget.spent


def test_two_measurements_are_as_good_as_one_of_their_summed_price() -> None:
    """Variance clip^2 / (2 (r1 + r2)), around the truth."""
    truth, clip, first, extra = torch.full((40_000,), 5.0), 2.0, 0.3, 0.2
    measured = Measured([truth], clip, SimplestRun(1))
    assert measured.measure(first) == first
    alone = measured.values[0].clone()
    measured.measure(extra)
    assert measured.rho == pytest.approx(first + extra)
    tolerance = 5 / math.sqrt(2 * len(truth))
    assert float(alone.std()) == pytest.approx(clip / math.sqrt(2 * first), rel=tolerance)
    deviation = gaussian_deviation(clip, first + extra)
    assert float(measured.values[0].std()) == pytest.approx(deviation, rel=tolerance)
    assert float(measured.values[0].mean()) == pytest.approx(5, abs=5 * deviation / math.sqrt(len(truth)))


def test_a_direction_has_length_one_over_all_weights() -> None:
    measured = Measured([torch.ones(3), torch.ones(2, 2)], 1.0, SimplestRun(1))
    measured.measure(50.0)
    direction = measured.direction()
    assert sum(float(part.square().sum()) for part in direction) == pytest.approx(1)
    assert [part.shape for part in direction] == [(3,), (2, 2)]


def test_a_pure_comparison_costs_half_its_epsilon_squared() -> None:
    assert pure_epsilon(0.02) ** 2 / 2 == pytest.approx(0.02)


def test_the_grid_follows_what_is_chosen() -> None:
    grid = StepGrid(2.0, 20)
    assert grid.lengths().tolist() == pytest.approx([0.1 * place for place in range(21)])
    for length in (0.2, 0.0, 0.5, *[0.1] * 7):
        grid.count(length)
    assert grid.longest == pytest.approx(0.55)
    for _ in range(10):
        grid.count(0.0)
    assert grid.longest == pytest.approx(0.55), "a grid of zeros could never grow again"


def test_it_learns_and_its_ledger_is_the_budget(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    assert isinstance(method, Budgeted)
    released = method.train(members, problem, params(epsilon=20.0), run)
    assert (released.predictor(members.x).argmax(1) == members.y).float().mean() > 0.8
    assert released.ledger == ZCDpEvent(whole_budget(params(epsilon=20.0), run))
    guarantee = price(released.ledger, 1e-5)
    assert guarantee.kind == method.guarantee
    assert guarantee.epsilon is not None
    assert guarantee.epsilon <= 20 == method.bound(params(epsilon=20.0))
    assert 0 < released.stats["rho_spent"] <= released.ledger.rho * (1 + 1e-12)
    assert 0 < released.stats["moves"] <= released.stats["comparisons"]


def test_a_useless_gradient_gets_more_budget(members: Records, run: "SimplestRun", problem: Problem) -> None:
    """With a constant loss all candidates are equal: the zero step wins now and then."""

    def flat(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return 0.0 * logits.sum(1) + 1.0

    chosen = params(candidates=1, splits=40)
    released = method.train(members, Problem(3, problem.model, flat), chosen, run)
    assert released.stats["comparisons"] > released.stats["moves"] > 0
    state: Any = run.states["train"]
    rho = released.ledger.rho
    assert state["chosen"]["gradient_rho"] > rho / 80
    assert 0.9 * rho < released.stats["rho_spent"] <= rho * (1 + 1e-12)


def test_steps_are_a_limit(problem: Problem, members: Records, run: "SimplestRun") -> None:
    released = method.train(members, problem, params(steps=3), run)
    assert released.stats["moves"] <= 3
    assert released.ledger == ZCDpEvent(whole_budget(params(), run)), (
        "the guarantee is that of the whole budget"
    )


def test_the_code_compares_sums_of_steps(problem: Problem, members: Records) -> None:
    """Candidate j is the sum of the first j steps, and the model stays at the last."""
    model = problem.model(0)
    weights = list(model.parameters())
    start = [weight.detach().clone() for weight in weights]
    gradient = [torch.ones_like(weight) for weight in weights]
    search = LineSearch(model, problem.loss, weights, 50.0)
    grid = torch.tensor([0.0, 0.1, 0.2], dtype=torch.float64)
    expected = search.losses(members, gradient, torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64))
    losses = cumulative_losses(search, members, gradient, grid)
    assert torch.equal(losses, expected)
    assert argmin_after_added_noise(losses, torch.Generator().manual_seed(0), 1e-9) == int(expected.argmin())
    for weight, origin in zip(weights, start, strict=True):
        torch.testing.assert_close(weight.detach(), origin - 0.3)


def test_official_code_has_a_claim_and_no_price(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    released = method.train(members, problem, params(**CODE, steps=30), run)
    assert isinstance(released.ledger, ClaimedDpEvent)
    guarantee = price(released.ledger, 1e-5)
    assert guarantee.kind == "claimed-disputed"
    assert guarantee.epsilon is None
    assert 0 < guarantee.epsilons["paper"] <= 8.0
    assert all(any(line in each for each in guarantee.assumptions) for line in UNPAID)
    assert method.bound(params(**CODE)) is None


@pytest.mark.slow
def test_official_code_stops_at_its_own_charge(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    released = method.train(members, problem, params(**CODE, epsilon=4.0), run)
    claimed = price(released.ledger, 1e-5).epsilons["paper"]
    assert 3.0 < claimed < 4.6, "the authors check after a step, when it is spent"
    assert released.stats["moves"] < 1000


@pytest.mark.slow
def test_official_code_resumes_to_the_same_bits(problem: Problem, members: Records, tmp_path: Path) -> None:
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 7

    def train(**given: Any) -> Released:
        chosen = params(**CODE, steps=20, candidates=2)
        return method.train(members, problem, chosen, Run("seed", torch.device("cpu"), **given))

    whole = train()
    with pytest.raises(Interrupted):
        train(folder=tmp_path, stop=stop)
    resumed = train(folder=tmp_path)
    assert whole.ledger == resumed.ledger
    assert whole.stats == resumed.stats
    for own, other in zip(whole.predictor.parameters(), resumed.predictor.parameters(), strict=True):
        assert torch.equal(own, other)


def test_a_budget_for_less_than_a_gradient_is_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(**(CODE | {"sigma_t": 0.1})), run)
    assert (caught.value.field, caught.value.value) == ("epsilon", params(**CODE).epsilon)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": math.inf}, "epsilon must be a finite number, got inf"),
        ({"epsilon": None}, "epsilon"),
        ({"variant": "authors"}, "Input should be 'paper' or 'official_code'"),
        ({"candidates": 0}, "candidates must be > 0, got 0"),
        ({"gamma": 0.0}, "gamma must be > 0, got 0"),
        ({"clip": math.inf}, "clip must be a finite number, got inf"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


def test_the_same_seed_gives_the_same_bits(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    one, other = (method.train(members, problem, params(**CODE, steps=5), run_of(4)) for _ in range(2))
    for own, theirs in zip(one.predictor.parameters(), other.predictor.parameters(), strict=True):
        assert torch.equal(own, theirs)
