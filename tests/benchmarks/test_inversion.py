"""Gradient inversion at full size: what it costs together and alone, and what it shows of real pictures."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import methods
import workloads
from harness.attacks.inverting_gradients import InvertingGradientsParams, attack
from harness.attacks.parts.inversion import Intercepted, Pixels, cosine_distance, record_gradients
from harness.attacks.parts.picture_metrics import Figures, compare, summarise
from harness.jobs.step_gradient import share
from harness.jobs.train import per_example_loss
from harness.plan.solving import solve
from methods.base import Problem
from workloads.models.lenet import lenet

TOGETHER, ROUNDS = 64, 7

pytestmark = pytest.mark.benchmark


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def alone(model: nn.Module, x: Tensor, y: Tensor, shared: list[Tensor]) -> Tensor:
    """The slope of one picture's distance, as it is usually programmed."""
    x = x.clone().requires_grad_()
    loss = cross_entropy(model(x), y)
    found = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    distance = cosine_distance([each[None] for each in found], shared)
    return torch.autograd.grad(distance.sum(), x)[0]


def test_many_pictures_at_once_against_one_at_a_time() -> None:
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    x, start = (torch.rand(TOGETHER, 3, 32, 32, generator=random) for _ in range(2))
    y, model = torch.arange(TOGETHER) % 10, lenet(0, 3, 32, 10)
    gradients = record_gradients(model)
    shared = gradients(x, y)
    firsts = [each[:1] for each in shared]

    def together() -> Tensor:
        z = start.clone().requires_grad_()
        return torch.autograd.grad(cosine_distance(gradients(z, y), shared).sum(), z)[0]

    def one() -> Tensor:
        return alone(model, start[:1], y[:1], firsts)

    torch.testing.assert_close(together()[:1], one(), rtol=1e-3, atol=1e-6)
    rounds = [(cpu_seconds(together) / TOGETHER, cpu_seconds(one)) for _ in range(ROUNDS)]
    ratio = median(single / batched for batched, single in rounds)
    rates = [1 / median(column) for column in zip(*rounds, strict=True)]
    print(f"picture-iterations per CPU second: {rates[0]:.0f} together, {rates[1]:.0f} alone, {ratio:.1f}x")  # noqa: T201
    assert ratio >= 5


@pytest.mark.data
def test_cifar_pictures_come_back_from_sgd_and_not_from_dp_sgd_or_noise() -> None:
    workload = workloads.family.get("cifar10-lenet")
    pool = workload.pool()
    rows = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0))[:32]
    victims, model, pixels = pool.take(rows), workload.model(0), Pixels.of(pool)
    problem = Problem(workload.classes, workload.model, per_example_loss)

    def inverted(gradients: list[Tensor]) -> Figures:
        seen = Intercepted(model, gradients, victims.y, victims.x.shape[1:], pixels)
        found = attack.rebuild(seen, InvertingGradientsParams(), torch.Generator().manual_seed(0))
        likeness = compare(pixels.unit(victims.x), pixels.unit(found.x), pixels.deviation)
        figures = summarise(likeness, found.labels == victims.y, np.zeros(len(victims), dtype=np.int64))
        print(figures)  # noqa: T201
        return figures

    def shared(name: str, **params: object) -> list[Tensor]:
        method = methods.family.get(name)
        solved = solve(method, method.Params(**params), workload.n_train, workload.model)
        each = [
            share(method, solved, problem, model, victims.take(torch.tensor([row])), "benchmark", "start")
            for row in range(len(victims))
        ]
        return [torch.stack(parts) for parts in zip(*(one.gradients for one in each), strict=True)]

    clear = inverted(shared("sgd"))
    assert clear.mse_median < 0.02 and clear.beats_mean_colour >= 0.9
    private = shared("dp-sgd", epsilon=8.0, clip=1.0, batch_size=1024, steps=488)
    noise = [torch.randn(each.shape, generator=torch.Generator().manual_seed(1)) for each in private]
    for gradients in (private, noise):
        assert inverted(gradients).beats_mean_colour <= 0.1
