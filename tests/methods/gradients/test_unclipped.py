"""The engine's passes without clipping and noise: sgd's own update on the same batch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from methods.base import Problem
from methods.gradients.unclipped import MeanGradient
from methods.sgd import SgdParams, method
from methods.training.cross_entropy import CrossEntropy
from workloads.base import Records

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

MODELS: dict[str, Callable[[], nn.Module]] = {
    "one layer": lambda: nn.Linear(6, 3),
    "many outputs": lambda: nn.Linear(6, 70),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3)),
    "frozen below": lambda: nn.Sequential(nn.Linear(6, 5).requires_grad_(False), nn.ReLU(), nn.Linear(5, 3)),
    "three layers": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 3)
    ),
    "not a chain": lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 3)),
}
MEMBERS = Records(
    torch.randn(20, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.arange(20) % 3
)


def built(name: str, seed: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return MODELS[name]().double()


@pytest.mark.parametrize("name", [name for name in MODELS if name != "not a chain"])
def test_the_mean_gradient_is_autograds(name: str) -> None:
    model = built(name)
    computes = MeanGradient(model, CrossEntropy())
    found = computes(MEMBERS.x, MEMBERS.y)
    assert found is not None
    loss = nn.functional.cross_entropy(model(MEMBERS.x), MEMBERS.y)
    torch.testing.assert_close(found[0], loss.detach())
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    assert {id(weight) for weight in computes.weights} == {id(weight) for weight in trained}
    expected = torch.autograd.grad(loss, computes.weights)
    assert len(found[1]) == len(expected)
    for own, other in zip(found[1], expected, strict=True):
        torch.testing.assert_close(own, other)


def test_models_that_the_engine_computes_by_autograd_are_left_to_it() -> None:
    computes = MeanGradient(built("not a chain"), CrossEntropy())
    assert computes(MEMBERS.x, MEMBERS.y) is None and computes.weights == []


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", [{}, {"momentum": 0.9}, {"optimizer": "adam", "weight_decay": 0.1}])
@pytest.mark.parametrize("sampling", ["shuffle", "poisson"])
def test_sgd_trains_the_same_model_either_way(
    name: str, optimizer: dict[str, Any], sampling: Any, run_of: "Callable[[int], SimplestRun]"
) -> None:
    problem = Problem(3, lambda seed: built(name, seed), CrossEntropy())
    found = []
    for gradients in ("autograd", "engine"):
        params = SgdParams(steps=6, batch_size=7, sampling=sampling, gradients=gradients, **optimizer)
        run = run_of(1)
        found.append((method.train(MEMBERS, problem, params, run).predictor.state_dict(), run.losses))
    (one, losses), (two, others) = found
    assert losses == pytest.approx(others, rel=1e-9)
    start = built(name, run_of(1).seed("init")).state_dict()
    assert any(not torch.equal(one[key], start[key]) for key in one), "a step was made"
    for key in one:
        torch.testing.assert_close(one[key], two[key])
