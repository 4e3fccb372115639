"""dpsgd-hf: dp-sgd behind a normalisation, and the price of both."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import ComposedDpEvent, NonPrivateDpEvent
from pydantic import ValidationError
from torch import nn

from harness.accounting import price
from harness.jobs.train import train
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.store.outcomes import Training
from methods.base import Calibrated, Problem, Rebuilt
from methods.dp_sgd import DpSgdParams
from methods.dp_sgd import method as dp_sgd
from methods.dpsgd_hf.dpsgd_hf import DpsgdHfParams, method
from methods.dpsgd_hf.normalisation import ChannelNormalised, estimate_moments, moments_event
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

COMMON: dict[str, Any] = {"noise_multiplier": 1.0, "steps": 5, "batch_size": 10}


def params(**given: Any) -> DpsgdHfParams:
    return DpsgdHfParams(**(COMMON | given))


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [weight.detach() for weight in model.parameters()]


def test_it_is_a_method_of_its_kind() -> None:
    assert isinstance(method, Calibrated)
    assert isinstance(method, Rebuilt)


def test_without_normalisation_it_is_dp_sgd(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    ours = method.train(members, problem, params(normalisation="none"), run_of(1))
    theirs = dp_sgd.train(members, problem, DpSgdParams(**COMMON), run_of(1))
    assert all(map(torch.equal, weights(ours.predictor), weights(theirs.predictor)))
    assert ours.ledger == theirs.ledger


def test_it_is_dp_sgd_on_records_normalised_beforehand(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """The slow way: estimate, normalise all records, and train on them."""
    ours = method.train(members, problem, params(), run_of(2))
    front = ChannelNormalised()
    front.fix(*estimate_moments(members, 8.0, 0.05, run_of(2)))
    normal = Records(front(members.x), members.y)
    theirs = dp_sgd.train(normal, problem, DpSgdParams(**COMMON), run_of(2))
    for own, other in zip(weights(ours.predictor), weights(theirs.predictor), strict=True):
        torch.testing.assert_close(own, other)
    torch.testing.assert_close(ours.predictor(members.x), theirs.predictor(normal.x))


def test_statistics_are_in_the_ledger(problem: Problem, members: Records, run: "SimplestRun") -> None:
    chosen = params(noise_multiplier=3.0, norm_noise=6.0, bound_epsilon=0.1)
    released = method.train(members, problem, chosen, run)
    training = dp_sgd.planned(DpSgdParams(**(COMMON | {"noise_multiplier": 3.0})), len(members))
    assert released.ledger == ComposedDpEvent([*moments_event(6.0, 0.1), training])
    assert released.ledger == method.planned(chosen, len(members))
    paid, unpaid = (price(each, 1e-5).epsilon for each in (released.ledger, training))
    assert paid is not None
    assert unpaid is not None
    assert paid > unpaid


@pytest.mark.parametrize("normalisation", ["group", "none"])
def test_a_records_own_numbers_cost_nothing(
    normalisation: str, problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(normalisation=normalisation, groups=2)
    released = method.train(members, problem, chosen, run)
    assert released.ledger == dp_sgd.planned(DpSgdParams(**COMMON), len(members))


def test_without_noise_in_training_there_is_no_guarantee(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    released = method.train(members, problem, params(noise_multiplier=0.0), run)
    assert released.ledger == NonPrivateDpEvent()


def test_unfit_records_are_refused_before_anything_is_measured(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(normalisation="group"), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("groups", 27, "divisors of 4")
    tokens = replace(members, x=members.x.long())
    with pytest.raises(SpecError) as caught:
        method.train(tokens, problem, params(), run)
    assert (caught.value.field, caught.value.value) == ("normalisation", ((4,), "torch.int64"))
    assert not run.states


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"normalisation": "batch"}, "Input should be 'private', 'group' or 'none'"),
        ({"groups": 0}, "groups must be > 0, got 0"),
        ({"norm_noise": 0.0}, "norm_noise must be > 0, got 0"),
        ({"bound_epsilon": -1.0}, "bound_epsilon must be > 0, got -1"),
        ({"noise_multiplier": None}, "give epsilon .* or noise_multiplier"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("PRIVBENCH_DATA" not in os.environ, reason="PRIVBENCH_DATA is not set: no real data")
def test_published_settings_reach_the_published_accuracy_on_fashion_mnist(tmp_path: Path) -> None:
    """Published with 60,000 members: 89.7 % at epsilon 3 by the classic conversion, 2.4 by PLD."""
    grid = {"workload": "fmnist-scatter-linear", "method": "dpsgd-hf", "epsilon": 2.4}
    task = make_plan(*read_sweep({"grid": [grid], "models": 1}, "published"), None).tasks[0]
    outcome = train(task, torch.device("cpu"), tmp_path, lambda: False).outcome
    assert isinstance(outcome, Training)
    assert outcome.guarantee.epsilon is not None
    assert outcome.guarantee.epsilon <= 2.4
    assert outcome.metrics.test_accuracy > 0.885
