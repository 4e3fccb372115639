"""dpsgd-ts: tempered sigmoids, where they go, and dp-sgd behind them."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from methods.base import Calibrated, Problem, Rebuilt
from methods.dp_sgd import DpSgdParams
from methods.dp_sgd import method as dp_sgd
from methods.dpsgd_ts import DpsgdTsParams, TemperedSigmoid, method, temper
from workloads.base import Records
from workloads.models.cnn import cifar_cnn, mnist_cnn
from workloads.models.mlp import mlp

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

COMMON: dict[str, Any] = {"noise_multiplier": 1.0, "steps": 5, "batch_size": 10}
X = torch.linspace(-8, 8, 1001, dtype=torch.float64)


def params(**given: Any) -> DpsgdTsParams:
    return DpsgdTsParams(**(COMMON | given))


def test_two_two_one_is_tanh() -> None:
    torch.testing.assert_close(TemperedSigmoid(2, 2, 1)(X), torch.tanh(X), rtol=0, atol=1e-7)
    assert torch.equal(TemperedSigmoid(1, 1, 0)(X), torch.sigmoid(X))


@pytest.mark.parametrize(
    ("scale", "temperature", "offset"), [(2.0, 2.0, 1.0), (1.58, 3.0, 0.71), (3, 0.5, 2)]
)
def test_bounds_and_slope(scale: float, temperature: float, offset: float) -> None:
    phi = TemperedSigmoid(scale, temperature, offset)
    assert float(phi(X).abs().max()) <= max(offset, scale - offset)
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(phi(zero), zero)
    assert float(slope) == pytest.approx(scale * temperature / 4)


@pytest.mark.parametrize(("build", "count"), [(mnist_cnn, 3), (cifar_cnn, 7)])
def test_every_activation_is_replaced_and_no_weight(build: Callable[..., nn.Module], count: int) -> None:
    model = build(0, act="relu")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert temper(model, 2, 2, 1) == count
    assert not [each for each in model.modules() if isinstance(each, nn.ReLU)]
    after = model.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_nested_and_repeated_activations_are_found() -> None:
    twice = nn.ReLU()
    model = nn.Sequential(nn.Linear(2, 2), twice, nn.Sequential(nn.Linear(2, 2), twice, nn.GELU()))
    assert temper(model, 2, 2, 1) == 3
    assert sum(isinstance(each, TemperedSigmoid) for each in model.modules()) == 3


def test_it_is_dp_sgd_on_a_network_of_tanh(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    def with_tanh(seed: int) -> nn.Module:
        first, _, last = mlp((4, 5, 3), seed)
        return nn.Sequential(first, nn.Tanh(), last)

    ours = method.train(members, problem, params(), run_of(3))
    tanh = Problem(3, with_tanh, problem.loss)
    theirs = dp_sgd.train(members, tanh, DpSgdParams(**COMMON), run_of(3))
    for own, other in zip(ours.predictor.parameters(), theirs.predictor.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-6)
    assert ours.ledger == theirs.ledger == method.planned(params(), len(members))


def test_the_skeleton_predicts_like_the_released_model(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    assert isinstance(method, Calibrated)
    assert isinstance(method, Rebuilt)
    chosen = params(scale=1.5, temperature=3.0, offset=0.5)
    released = method.train(members, problem, chosen, run).predictor
    rebuilt = method.skeleton(problem, chosen)
    rebuilt.load_state_dict(released.state_dict())
    assert torch.equal(rebuilt(members.x), released(members.x))
    plain = problem.model(0)
    plain.load_state_dict(released.state_dict())
    assert not torch.equal(plain(members.x), released(members.x)), (
        "the workload's own model predicts differently"
    )


def test_a_model_without_activations_warns(
    members: Records, run: "SimplestRun", caplog: pytest.LogCaptureFixture, problem: Problem
) -> None:
    linear = Problem(3, lambda seed: mlp((4, 3), seed), problem.loss)
    with caplog.at_level(logging.WARNING):
        method.train(members, linear, params(), run)
    assert "no activation to replace" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"scale": 0.0}, "scale must be > 0, got 0"),
        ({"temperature": -1.0}, "temperature must be > 0, got -1"),
        ({"offset": float("nan")}, "offset"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)
