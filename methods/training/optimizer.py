"""The optimisers of methods of gradient steps, and their parameters."""

import inspect
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn, optim

from methods.base import Amount, Count, Fraction, Params, Rate
from methods.gradients.graph import WithoutGraph

Schedule = Literal["constant", "cosine"]
"""The learning-rate schedule."""

PLAIN: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0}
"""Settings of plain gradient descent."""


class OptimizerParams(Params):
    """Parameters of every method of gradient steps."""

    steps: Count = Field(default=500, description="Training steps.")
    batch_size: Count = Field(default=64, description="Examples per step.")
    learning_rate: Rate = Field(default=0.1, description="Learning rate.")
    optimizer: Literal["sgd", "adam"] = Field(default="sgd", description="Optimiser of the update.")
    momentum: Fraction = Field(default=0.0, description="Momentum of optimizer 'sgd'.")
    weight_decay: Amount = Field(default=0.0, description="L2 penalty added to the gradient.")

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one plain gradient step on all of `count` records (methods/base.py, Stepped)."""
        return {"steps": 1, "batch_size": count, "learning_rate": rate, **PLAIN}

    @model_validator(mode="after")
    def _momentum_is_sgds(self) -> "OptimizerParams":
        # Ignoring it would give one training two keys.
        if self.optimizer == "adam" and self.momentum != 0:
            raise ValueError(
                f"momentum belongs to optimizer 'sgd'; set momentum = 0 with 'adam', got {self.momentum}"
            )
        return self


class Uncompiled(optim.Optimizer):
    """An optimiser whose calls torch's compiler cannot see: the same arithmetic, without loading it.

    torch marks these calls for its compiler, and loads it for that: a second of each worker (measured).
    """

    add_param_group = inspect.unwrap(optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(optim.Optimizer.load_state_dict)


class Sgd(Uncompiled, optim.SGD):
    """torch's SGD."""

    step = torch.no_grad()(inspect.unwrap(optim.SGD.step))


class Adam(Uncompiled, optim.Adam):
    """torch's Adam."""

    step = torch.no_grad()(inspect.unwrap(optim.Adam.step))


def make_optimizer(weights: Iterable[nn.Parameter], params: OptimizerParams) -> optim.Optimizer:
    """Create the optimiser of these parameters."""
    if params.optimizer == "adam":
        return Adam(weights, lr=params.learning_rate, weight_decay=params.weight_decay)
    return Sgd(
        weights,
        lr=params.learning_rate,
        momentum=params.momentum,
        weight_decay=params.weight_decay,
    )


class Update:
    """Updates of weights by given gradients, through the optimiser that belongs to the state."""

    def __init__(self, optimizer: optim.Optimizer, weights: Sequence[nn.Parameter]) -> None:
        self._optimizer, self._weights = optimizer, list[Tensor](weights)
        (group,) = optimizer.param_groups
        # Plain SGD has no state: one call for all weights, with the optimiser's arithmetic.
        self._plain = (
            type(optimizer) in (Sgd, optim.SGD)
            and not group["momentum"]
            and not group["weight_decay"]
            and not group["maximize"]
        )

    def step(self, gradients: list[Tensor]) -> None:
        """Make one step."""
        if self._plain:
            with WithoutGraph():
                torch._foreach_add_(self._weights, gradients, alpha=-self._optimizer.param_groups[0]["lr"])
            return
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.grad = gradient
        self._optimizer.step()

    def step_by_own(self) -> None:
        """Make one step by the weights' own gradients, and drop them: memory for the next forward pass.

        A weight without a gradient stays as it is.
        """
        if not self._plain:
            self._optimizer.step()
            self._optimizer.zero_grad()
            return
        # A third of the time of the optimiser's own calls (measured).
        found = [(weight, weight.grad) for weight in self._weights if weight.grad is not None]
        with WithoutGraph():
            rate = self._optimizer.param_groups[0]["lr"]
            torch._foreach_add_([weight for weight, _ in found], [grad for _, grad in found], alpha=-rate)
        for weight, _ in found:
            weight.grad = None


def set_rate(optimizer: optim.Optimizer, schedule: Schedule, rate: float, step: int, total: int) -> None:
    """Set the learning rate of a step: constant, or half a cosine from `rate` towards 0 (Loshchilov and
    Hutter 2017). It depends only on the step, so it is not part of a checkpoint."""
    if schedule == "constant":
        return
    share = (1 + math.cos(math.pi * step / total)) / 2
    for group in optimizer.param_groups:
        group["lr"] = rate * share
