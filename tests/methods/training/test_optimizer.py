"""Updates by given gradients against the optimiser itself."""

import copy
from collections.abc import Iterable

import pytest
import torch
from torch import nn, optim

from methods.training.optimizer import OptimizerParams, Update, make_optimizer
from workloads.models.mlp import mlp

every_optimizer = pytest.mark.parametrize(
    "given",
    [
        {},
        {"momentum": 0.9},
        {"weight_decay": 0.1},
        {"momentum": 0.5, "weight_decay": 0.1},
        {"optimizer": "adam"},
        {"optimizer": "adam", "weight_decay": 0.1},
    ],
)


def torch_s_own(weights: Iterable[nn.Parameter], params: OptimizerParams) -> optim.Optimizer:
    rate, decay = params.learning_rate, params.weight_decay
    if params.optimizer == "adam":
        return optim.Adam(weights, rate, weight_decay=decay)
    return optim.SGD(weights, rate, params.momentum, weight_decay=decay)


@every_optimizer
def test_an_optimiser_takes_up_where_torch_s_own_stopped(given: dict[str, object]) -> None:
    params = OptimizerParams.model_validate({"learning_rate": 0.003, **given})
    ours, theirs = mlp((6, 5, 3), 1), mlp((6, 5, 3), 1)
    optimizers = make_optimizer(ours.parameters(), params), torch_s_own(theirs.parameters(), params)
    for count in range(4):
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            model(torch.full((2, 6), float(count + 1))).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        if count == 1:
            optimizers[0].load_state_dict(copy.deepcopy(optimizers[1].state_dict()))
            assert str(optimizers[0].state_dict()) == str(optimizers[1].state_dict())
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


@every_optimizer
def test_an_update_has_the_optimiser_s_bits(given: dict[str, object]) -> None:
    params = OptimizerParams.model_validate({"learning_rate": 0.3, **given})
    ours, theirs = mlp((6, 5, 3), 1), mlp((6, 5, 3), 1)
    update = Update(make_optimizer(ours.parameters(), params), list(ours.parameters()))
    optimizer = torch_s_own(theirs.parameters(), params)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        gradients = [torch.randn(weight.shape, generator=generator) for weight in ours.parameters()]
        update.step([gradient.clone() for gradient in gradients])
        for weight, gradient in zip(theirs.parameters(), gradients, strict=True):
            weight.grad = gradient
        optimizer.step()
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


@every_optimizer
def test_an_update_by_own_gradients_has_the_optimiser_s_bits(given: dict[str, object]) -> None:
    """A weight without a gradient stays, and no gradient is left."""
    params = OptimizerParams.model_validate({"learning_rate": 0.3, **given})
    ours, theirs = mlp((6, 5, 3), 1), mlp((6, 5, 3), 1)
    update = Update(make_optimizer(ours.parameters(), params), list(ours.parameters()))
    optimizer = torch_s_own(theirs.parameters(), params)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        for own, other in list(zip(ours.parameters(), theirs.parameters(), strict=True))[1:]:
            gradient = torch.randn(own.shape, generator=generator)
            own.grad, other.grad = gradient.clone(), gradient
        update.step_by_own()
        optimizer.step()
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
    assert all(weight.grad is None for weight in ours.parameters())


def test_the_rate_is_the_optimiser_s_own() -> None:
    weight = nn.Parameter(torch.zeros(2))
    optimizer = make_optimizer([weight], OptimizerParams(learning_rate=0.5))
    update = Update(optimizer, [weight])
    optimizer.param_groups[0]["lr"] = 0.25
    update.step([torch.ones(2)])
    assert weight.tolist() == [-0.25, -0.25]
