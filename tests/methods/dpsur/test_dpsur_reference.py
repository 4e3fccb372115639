"""dpsur against a slow reference that copies whole models and optimizers: same randomness, same bits.

They share the clipped sums and the Gaussian noise, which have their own tests.
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import ComposedDpEvent, GaussianDpEvent, PoissonSampledDpEvent
from torch import Tensor, nn

from harness.accounting import Allotment, Filter
from methods.base import Problem
from methods.dpsur.dpsur import DpsurParams, method
from methods.gradients import make_engine
from methods.mechanisms.noise import SeededNoise
from methods.training.optimizer import make_optimizer
from workloads.base import Records

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

OPTIMIZERS: list[dict[str, Any]] = [
    {"learning_rate": 0.5},
    {"learning_rate": 0.3, "momentum": 0.9},
    {"learning_rate": 0.02, "optimizer": "adam"},
]


class Reference:
    """Algorithm 2 of Fu et al. 2024, line by line; with `official`, the loop of the authors' code."""

    def __init__(self, members: Records, problem: Problem, params: DpsurParams, run: "SimplestRun") -> None:
        self.members, self.problem, self.params, self.run = members, problem, params, run
        self.model = problem.model(run.seed("init"))
        self.optimizer = make_optimizer(self.model.parameters(), params)
        self.engine = make_engine(self.model, problem.loss)
        scale = params.sigma_t * params.clip
        self.noise = SeededNoise(self.engine.weights, scale, run.generator("noise"))
        self.validation = params.B_v or params.batch_size
        rates = params.batch_size / len(members), self.validation / len(members)
        self.room = room(params.epsilon, rates, (params.sigma_t, params.sigma_v), params.charge)
        self.attempts = self.accepted = 0

    def poisson(self, stream: str, size: int) -> Records:
        chance = torch.rand(len(self.members), generator=self.run.generator(stream), dtype=torch.float64)
        return self.members.take((chance < size / len(self.members)).nonzero().flatten())

    def propose(self, divisor: int | None = None) -> None:
        """One step of DP-SGD, divided by the expected batch size, or by the realised one."""
        batch = self.poisson("sampling", self.params.batch_size)
        sums = self.engine.clipped_sum(batch.x, batch.y, self.params.clip).sums
        means = self.noise.noisy_mean(sums, divisor or max(len(batch), 1))
        for weight, mean in zip(self.engine.weights, means, strict=True):
            weight.grad = mean.clone()
        self.optimizer.step()

    def loss(self, model: nn.Module, records: Records) -> float:
        with torch.no_grad():
            losses = self.problem.loss(model(records.x), records.y).double()
        return float(losses.mean()) if len(records) else 0.0

    def test(self, change: float) -> bool:
        params = self.params
        clipped = min(max(change, -params.C_v), params.C_v)
        drawn = torch.empty(1, dtype=torch.float64)
        drawn.normal_(0, 2 * params.C_v * params.sigma_v, generator=self.run.generator("validation-noise"))
        accepted = float(drawn) + clipped < params.beta * params.C_v
        self.attempts += 1
        self.accepted += accepted
        return accepted

    def clean(self) -> None:
        while self.admits():
            before = copy.deepcopy(self.model.state_dict()), copy.deepcopy(self.optimizer.state_dict())
            old = copy.deepcopy(self.model)
            self.propose(self.params.batch_size)
            judges = self.poisson("validation-sampling", self.validation)
            if not self.test(self.loss(self.model, judges) - self.loss(old, judges)):
                self.model.load_state_dict(before[0])
                self.optimizer.load_state_dict(before[1])

    def official(self) -> None:
        last_model, last_loss, spent = self.model.state_dict(), 1e5, False
        while not spent:
            spent = not self.admits()
            self.propose()
            loss = self.loss(self.model, self.poisson("validation-sampling", self.validation))
            if self.test(loss - last_loss):
                last_loss, last_model = loss, copy.deepcopy(self.model.state_dict())
            else:
                self.model.load_state_dict(last_model)  # before the first acceptance, the model's own tensors

    def admits(self) -> bool:
        """Whether the charged attempts and one more stay within the budget."""
        return (self.accepted if self.params.charge == "paper" else self.attempts) < self.room


@cache
def room(epsilon: float, rates: tuple[float, float], noises: tuple[float, float], charge: str) -> int:
    """The number of attempts in the budget: fixed in advance if all are charged, else by a filter."""
    parts = zip(rates, noises, strict=True)
    attempt = ComposedDpEvent([PoissonSampledDpEvent(q, GaussianDpEvent(noise)) for q, noise in parts])
    budget = Filter(epsilon, 1e-5, attempt) if charge == "paper" else Allotment(epsilon, 1e-5, attempt)
    return budget.remaining_uses(attempt)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["plain", "momentum", "adam"])
@pytest.mark.parametrize(
    "chosen",
    [
        {"epsilon": 4.0},
        {"epsilon": 3.0, "charge": "paper"},
        {"epsilon": 3.0, "charge": "paper", "variant": "official_code"},
    ],
    ids=["all attempts", "paper", "official code"],
)
def test_the_reference_has_the_same_bits(
    chosen: dict[str, Any],
    optimizer: dict[str, Any],
    problem: Problem,
    members: Records,
    run_of: "Callable[[int], SimplestRun]",
) -> None:
    params = DpsurParams(batch_size=12, B_v=6, sigma_t=2.0, sigma_v=1.5, clip=1.0, **chosen, **optimizer)
    released = method.train(members, problem, params, run_of(3))
    reference = Reference(members, problem, params, run_of(3))
    (reference.official if params.variant == "official_code" else reference.clean)()
    assert released.stats["attempts"] == reference.attempts
    assert 0 < released.stats["accepted"] == reference.accepted < reference.attempts
    ours, theirs = released.predictor.state_dict(), reference.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert moved(released.predictor, problem.model(run_of(3).seed("init"))) > 0


def moved(one: nn.Module, other: nn.Module) -> Tensor:
    return sum(
        ((a - b).detach().norm() for a, b in zip(one.parameters(), other.parameters(), strict=True)),
        torch.zeros(()),
    )
