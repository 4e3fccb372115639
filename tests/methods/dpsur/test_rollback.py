"""Rollback against torch's own optimizers on separate weights, and against memory."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from methods.dpsur.rollback import Rollback
from methods.training.optimizer import OptimizerParams, make_optimizer
from workloads.errors import SpecError
from workloads.models.mlp import mlp

OPTIMIZERS: list[dict[str, Any]] = [
    {},
    {"momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "adam", "learning_rate": 0.02},
]
every_optimizer = pytest.mark.parametrize("chosen", OPTIMIZERS, ids=["plain", "momentum", "adam"])


def network() -> nn.Sequential:
    return mlp((4, 5, 3), 0)


def gradients(model: nn.Module, seed: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(weight.shape, generator=random) for weight in model.parameters()]


def bits(model: nn.Module) -> list[Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(map(torch.equal, one, other))


@every_optimizer
def test_updates_are_the_optimizers_own(chosen: dict[str, Any]) -> None:
    params = OptimizerParams(**chosen)
    ours, theirs = network(), network()
    rollback = Rollback(list(ours.parameters()), params)
    optimizer = make_optimizer(theirs.parameters(), params)
    for step in range(5):
        drawn = gradients(ours, step)
        rollback.update(drawn)
        for weight, gradient in zip(theirs.parameters(), drawn, strict=True):
            weight.grad = gradient
        optimizer.step()
        assert same(bits(ours), bits(theirs))


@every_optimizer
def test_a_reverted_update_never_was(chosen: dict[str, Any]) -> None:
    params = OptimizerParams(**chosen)
    models = [network(), network()]
    tried, plain = (Rollback(list(model.parameters()), params) for model in models)
    for step in range(4):
        tried.keep()
        tried.update(gradients(models[0], 100 + step))
        assert not same(bits(models[0]), bits(models[1]))
        tried.revert()
        for rollback, model in zip((tried, plain), models, strict=True):
            rollback.update(gradients(model, step))
        assert same(bits(models[0]), bits(models[1]))


def test_reverted_weights_leave_the_momentum() -> None:
    params = OptimizerParams(momentum=0.5, learning_rate=1.0)
    model = network()
    rollback, start = Rollback(list(model.parameters()), params), bits(model)
    first, second = gradients(model, 1), gradients(model, 2)
    rollback.keep()
    rollback.update(first)
    rollback.revert_weights()
    assert same(bits(model), start)
    rollback.update(second)
    for weight, before, one, two in zip(model.parameters(), start, first, second, strict=True):
        torch.testing.assert_close(weight.detach(), before - (0.5 * one + two))


def test_pairs_show_now_and_then() -> None:
    model = network()
    rollback = Rollback(list(model.parameters()), OptimizerParams(momentum=0.9))
    pairs, start = rollback.pairs(), bits(model)
    rollback.keep()
    rollback.update(gradients(model, 1))
    for pair, weight, before in zip(pairs, model.parameters(), start, strict=True):
        assert torch.equal(pair[0], weight)
        assert torch.equal(pair[1], before)


@every_optimizer
def test_its_state_holds_everything(chosen: dict[str, Any]) -> None:
    params = OptimizerParams(**chosen)
    models = [network(), network()]
    one, other = (Rollback(list(model.parameters()), params) for model in models)
    one.update(gradients(models[0], 1))
    other.load_state_dict(one.state_dict())
    for rollback, model in ((one, models[0]), (other, models[1])):
        rollback.update(gradients(model, 2))
    assert same(bits(models[0]), bits(models[1]))


def test_released_weights_have_memory_of_their_own() -> None:
    model = network()
    rollback, start = Rollback(list(model.parameters()), OptimizerParams()), bits(model)
    rollback.release()
    rollback.update(gradients(model, 1))
    assert same(bits(model), start)
    assert len({weight.untyped_storage().data_ptr() for weight in model.parameters()}) == len(start)


def test_weights_of_two_types_are_refused() -> None:
    weights = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.float64))]
    with pytest.raises(SpecError, match="differ in type"):
        Rollback(weights, OptimizerParams())
