"""sgd against closed forms, and what its parameters refuse."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import ValidationError
from torch import Tensor, nn

from methods.base import Problem
from methods.sgd import SgdParams, method
from workloads.base import Records

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun


class Point(nn.Module):
    """One number, whatever the input."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([5.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.theta.expand(len(x))


def quadratic(theta: Tensor, c: Tensor) -> Tensor:
    return 0.5 * (theta - c) ** 2


def test_full_batches_on_a_quadratic_shrink_by_one_minus_the_rate(run: "SimplestRun") -> None:
    """theta_t - c = (1 - eta)^t (theta_0 - c)."""
    members = Records(torch.zeros(6, 1), torch.full((6,), 2.0, dtype=torch.float64))
    params = SgdParams(steps=7, batch_size=6, learning_rate=0.3)
    released = method.train(members, Problem(1, lambda seed: Point(), quadratic), params, run)
    theta = float(released.predictor(torch.zeros(1, 1)).detach())
    assert theta - 2.0 == pytest.approx((1 - 0.3) ** 7 * (5.0 - 2.0), rel=1e-12)
    assert run.losses == pytest.approx([0.5 * (0.7**t * 3.0) ** 2 for t in range(7)])


def test_the_rate_falls_as_a_cosine(run: "SimplestRun") -> None:
    """Each step shrinks the distance by one minus its own rate."""
    members = Records(torch.zeros(6, 1), torch.full((6,), 2.0, dtype=torch.float64))
    params = SgdParams(steps=5, batch_size=6, learning_rate=0.3, schedule="cosine")
    released = method.train(members, Problem(1, lambda seed: Point(), quadratic), params, run)
    shares = [1 - 0.3 * (1 + math.cos(math.pi * step / 5)) / 2 for step in range(5)]
    assert shares[0] == 0.7
    theta = float(released.predictor(torch.zeros(1, 1)).detach())
    assert theta - 2.0 == pytest.approx(math.prod(shares) * (5.0 - 2.0), rel=1e-12)


def test_it_learns_and_has_no_guarantee(run: "SimplestRun", problem: Problem, members: Records) -> None:
    released = method.train(members, problem, SgdParams(steps=200, batch_size=10, learning_rate=0.5), run)
    accuracy = (released.predictor(members.x).argmax(1) == members.y).float().mean()
    assert accuracy > 0.9
    assert released.ledger == NonPrivateDpEvent()
    assert not released.predictor.training


@pytest.mark.parametrize("sampling", ["shuffle", "poisson"])
@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam", "learning_rate": 0.01}])
def test_the_same_seed_gives_the_same_bits(
    sampling: Any,
    optimizer: dict[str, Any],
    problem: Problem,
    members: Records,
    run_of: "Callable[[int], SimplestRun]",
) -> None:
    params = SgdParams(steps=20, batch_size=8, sampling=sampling, **optimizer)
    weights = [
        method.train(members, problem, params, run_of(seed)).predictor.state_dict() for seed in (1, 1, 2)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_an_empty_poisson_batch_takes_no_step(run: "SimplestRun", problem: Problem) -> None:
    """With two members and an expected batch of one, a quarter of the batches is empty."""
    members = Records(torch.randn(2, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1]))
    params = SgdParams(steps=40, batch_size=1, sampling="poisson")
    released = method.train(members, problem, params, run)
    assert 0.0 in run.losses
    assert all(torch.isfinite(w).all() for w in released.predictor.parameters())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be > 0, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number, got nan"),
        ({"steps": 0}, "steps must be > 0, got 0"),
        ({"batch_size": -1}, "batch_size must be > 0, got -1"),
        ({"momentum": 1.0}, "momentum must be < 1, got 1.0"),
        ({"weight_decay": -0.1}, "weight_decay must be >= 0, got -0.1"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum belongs to optimizer 'sgd'"),
        ({"epsilon": 1.0}, "epsilon"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SgdParams(**wrong)
