"""The obvious way to clip: one example, one backward pass at a time."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from methods.gradients import Loss
from methods.gradients.layers import trainable_layers


@dataclass(frozen=True)
class Truth:
    """Every example's gradient, and what follows from it."""

    gradients: list[Tensor]
    layers: list[int]

    def norms(self) -> Tensor:
        norms: Tensor = torch.stack([g.flatten(1).norm(dim=1) for g in self.gradients]).norm(dim=0)
        return norms

    def sums(self, clip: float) -> list[Tensor]:
        factors = (clip / (self.norms() + 1e-6)).clamp(max=1.0)
        return [torch.einsum("i,i...->...", factors, g) for g in self.gradients]

    def sums_per_layer(self, clip: float) -> list[Tensor]:
        budget = clip / math.sqrt(len(self.layers))
        sums, rest = [], list(self.gradients)
        for size in self.layers:
            part, rest = Truth(rest[:size], []), rest[size:]
            sums += part.sums(budget)
        return sums


def one_by_one(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Truth:
    layers = trainable_layers(model)
    weights = [weight for layer in layers for weight in layer.weights.values()]
    gradients = [
        torch.autograd.grad(loss(model(x[i : i + 1]), y[i : i + 1]).sum(), weights, materialize_grads=True)
        for i in range(len(x))
    ]
    sizes = [len(layer.weights) for layer in layers]
    return Truth([torch.stack(each) for each in zip(*gradients, strict=True)], sizes)


def distance(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The norm of the difference over the norm of theirs."""
    pairs = list(zip(ours, theirs, strict=True))
    gap = torch.stack([(a - b).norm() for a, b in pairs]).norm()
    return float(gap / torch.stack([b.norm() for _, b in pairs]).norm().clamp(min=1e-30))


@pytest.fixture(scope="session")
def truth() -> Callable[[nn.Module, Loss, Tensor, Tensor], Truth]:
    return one_by_one


@pytest.fixture(scope="session")
def apart() -> Callable[[list[Tensor], list[Tensor]], float]:
    return distance
