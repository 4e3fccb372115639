"""pate from shards to student: the influence of one member, the ledger, and what is refused."""

import dataclasses
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

import methods
from harness.accounting import price
from harness.accounting.ledger import expand
from harness.plan.plan import make_plan
from harness.plan.solving import solve
from harness.plan.sweep_file import read_sweep
from methods.base import Assisted, Calibrated, Problem
from methods.mechanisms.events import NoisyVotesDpEvent
from methods.pate.pate import PateParams, method
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun


def params(**given: Any) -> PateParams:
    defaults = {"noise": 1.0, "teachers": 6, "queries": 30, "steps": 60, "batch_size": 10}
    return PateParams(**(defaults | {"teacher_steps": 30, "teacher_batch_size": 5} | given))


@pytest.fixture
def problem(problem: Problem, members: Records) -> Problem:
    """The usual one with 40 public examples, of the members' kind."""
    noise = torch.randn(40, 4, generator=torch.Generator().manual_seed(9))
    return dataclasses.replace(problem, public=members.x[:40] + 0.3 * noise)


def votes(members: Records, problem: Problem, run: "SimplestRun", **given: Any) -> Tensor:
    ledger = method.train(members, problem, params(**given), run).ledger
    assert isinstance(ledger, NoisyVotesDpEvent)
    return torch.tensor(ledger.votes)


@pytest.mark.slow
def test_one_member_moves_at_most_one_vote_on_every_query(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """The sensitivity behind every epsilon. The member is an outlier, so that votes do change."""
    outlier = Records(torch.full((1, 4), -30.0), torch.tensor([1]))
    more = Records(torch.cat([members.x, outlier.x]), torch.cat([members.y, outlier.y]))
    changes = torch.cat(
        [votes(more, problem, run_of(seed)) - votes(members, problem, run_of(seed)) for seed in range(4)]
    )
    assert changes.any(), "otherwise the test shows nothing"
    assert (changes.abs().sum(1) <= 2).all()
    assert (changes.sum(1) == 0).all()


def test_only_noisy_labels_reach_the_student(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """Other members with the same noisy labels give the same student, bit for bit."""
    far = Records(members.x * 1.5, members.y)
    students = [
        method.train(each, problem, params(noise=0.0, teacher_steps=100), run_of(2))
        for each in (members, far)
    ]
    ledgers = [each.ledger for each in students]
    assert ledgers[0].votes != ledgers[1].votes
    labels = [torch.tensor(ledger.votes).argmax(1).tolist() for ledger in ledgers]
    assert labels[0] == labels[1]
    weights = [each.predictor.state_dict() for each in students]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("aggregator", ["lnmax", "gnmax", "confident-gnmax"])
def test_it_learns(aggregator: str, problem: Problem, members: Records, run: "SimplestRun") -> None:
    chosen = params(aggregator=aggregator, noise=0.5, threshold=0.5, teacher_steps=100, steps=200)
    released = method.train(members, problem, chosen, run)
    assert (released.predictor(members.x).argmax(1) == members.y).double().mean() > 0.85
    assert 0 < released.stats["answered"] <= 30
    assert 1 / 3 <= released.stats["mean_agreement"] <= 1
    assert 0 <= released.stats["mean_gap"] <= released.stats["mean_agreement"]
    assert 0 <= released.stats["smallest_shard"] <= 10


@pytest.mark.parametrize(
    "given",
    [
        {"aggregator": "lnmax"},
        {"aggregator": "gnmax"},
        {"aggregator": "confident-gnmax"},
        {"aggregator": "confident-gnmax", "answers": 4},
    ],
)
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_target_is_kept_whatever_the_votes(
    given: dict[str, Any],
    epsilon: float,
    problem: Problem,
    members: Records,
    run: "SimplestRun",
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = params(epsilon=epsilon, noise=None, teacher_steps=2, steps=2, **given)
    chosen = solve(methods.family.get("pate"), asked, len(members), problem.model)
    assert isinstance(chosen, PateParams)
    released = method.train(members, problem, chosen, run)
    found = price(released.ledger, chosen.delta)
    assert found.kind == method.guarantee
    assert 0.99 * epsilon <= (found.epsilon or 0) <= epsilon
    assert "data_dependent" in found.epsilons
    assert any("not sanitised" in line for line in found.assumptions)
    assert str(expand(released.ledger)) == str(expand(method.planned(chosen, 1)))


def test_the_noise_of_the_test_goes_with_the_noise(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(aggregator="confident-gnmax", noise=2.0, threshold=0.5, answers=7)
    ledger = method.train(members, problem, chosen, run).ledger
    assert (ledger.threshold, ledger.threshold_noise, ledger.most_answers) == (3.0, 7.5, 7)
    assert sum(ledger.answered) <= 7


def test_no_answer_at_all_warns_and_releases_the_untrained(
    problem: Problem, members: Records, run: "SimplestRun", caplog: pytest.LogCaptureFixture
) -> None:
    """Six barely trained teachers, of which all but one must agree on 30 queries, without noise."""
    alone = dataclasses.replace(problem, public=torch.zeros(1, 4))
    chosen = params(
        aggregator="confident-gnmax", noise=0.0, threshold=0.99, queries=1, teacher_steps=1, teachers=40
    )
    with caplog.at_level(logging.WARNING):
        released = method.train(members, alone, chosen, run)
    assert "none of 1 queries was answered" in caplog.text
    fresh = problem.model(run.seed("init")).state_dict()
    assert all(torch.equal(fresh[name], weight) for name, weight in released.predictor.state_dict().items())


def test_queries_are_public_examples_each_once(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    method.train(members, problem, params(queries=40), run)
    teachers = run.states["teachers"]["teachers"]
    assert problem.public is not None
    assert sorted(teachers.queries.tolist()) == sorted(problem.public.tolist())


@pytest.mark.parametrize("given", [{"epsilon": math.inf, "noise": None}, {"noise": 0.0}])
def test_without_noise_there_is_no_guarantee(
    given: dict[str, Any], problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    released = method.train(members, problem, params(teacher_steps=1, steps=1, **given), run)
    assert price(released.ledger, 1e-5).kind == "none"


def test_it_declares_what_it_needs() -> None:
    assert isinstance(method, Calibrated)
    assert isinstance(method, Assisted)


def test_public_examples_are_needed(members: Records, problem: Problem, run: "SimplestRun") -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, dataclasses.replace(problem, public=None), params(), run)
    assert (caught.value.field, caught.value.value) == ("workload", None)
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(queries=41), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("queries", 41, (1, 40))
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(epsilon=4.0, noise=None), run)
    assert (caught.value.field, caught.value.value) == ("noise", None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise": None}, "give epsilon .* or noise"),
        ({"noise": -1.0}, "noise must be >= 0, got -1"),
        ({"epsilon": math.inf}, "epsilon = inf goes with noise = 0 only"),
        ({"epsilon": 1.0, "noise": 0.0}, "epsilon = inf goes with noise = 0 only"),
        ({"teachers": 0}, "teachers must be > 0, got 0"),
        ({"queries": 0}, "queries must be > 0, got 0"),
        ({"threshold": 1.0}, "threshold must be < 1, got 1"),
        ({"threshold_ratio": 0.0}, "threshold_ratio must be > 0, got 0"),
        ({"aggregator": "majority"}, "lnmax"),
        ({"answers": 5}, "answers applies to 'confident-gnmax' only, and gnmax answers every query"),
        ({"teacher_steps": 0}, "teacher_steps must be > 0, got 0"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


def test_queries_are_solved_for_where_epsilon_and_noise_are_given(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    grid = {"workload": "digits-mlp", "method": "pate", "epsilon": 4.0, "noise": 20.0}
    chosen = make_plan(*read_sweep({"grid": [grid], "models": 1}, "sweep"), None).cells[0].params
    prices = [
        price(method.planned(params(**{**chosen, "queries": chosen["queries"] + more}), 1), 1e-5).epsilon
        for more in (0, 1)
    ]
    assert chosen["noise"] == 20.0
    assert (prices[0] or 0) <= 4.0 < (prices[1] or 0)


def test_nothing_is_solved_for_where_all_three_are_given() -> None:
    grid = {"workload": "digits-mlp", "method": "pate", "epsilon": 4.0, "noise": 20.0, "queries": 50}
    with pytest.raises(SpecError, match="epsilon, noise and queries are given: give two"):
        make_plan(*read_sweep({"grid": [grid], "models": 1}, "sweep"), None)
