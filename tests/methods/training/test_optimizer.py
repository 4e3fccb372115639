"""Updates by given gradients against the optimiser itself."""

import pytest
import torch
from torch import nn

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


@every_optimizer
def test_an_update_has_the_optimiser_s_bits(given: dict[str, object]) -> None:
    params = OptimizerParams.model_validate({"learning_rate": 0.3, **given})
    ours, theirs = mlp((6, 5, 3), 1), mlp((6, 5, 3), 1)
    update = Update(make_optimizer(ours.parameters(), params), list(ours.parameters()))
    optimizer = make_optimizer(theirs.parameters(), params)
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
    optimizer = make_optimizer(theirs.parameters(), params)
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
