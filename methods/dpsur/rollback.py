"""Weights and optimiser state in one buffer, so that one copy reverts an update."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from methods.training.optimizer import OptimizerParams, make_optimizer
from workloads.errors import SpecError

ALIGNED = 16
"""Weights begin at multiples of this, as tensors of their own do: products depend on it in their last bit."""


class Rollback:
    """Updates a model's weights and can revert the last update, with or without the optimiser state.

    Two rows of one buffer contain weights and optimiser state (momentum, Adam's moments and step count):
    present ones, and those at `keep`. Until `release` the model's weights are views of the first row. Part of
    the state of `run.steps`.
    """

    def __init__(self, weights: Sequence[nn.Parameter], params: OptimizerParams) -> None:
        """Take over weights of one type and device, with the optimiser of `params`."""
        if len({(weight.dtype, weight.device) for weight in weights}) > 1:
            raise SpecError(
                "the model's weights differ in type or device, but dpsur keeps them in one buffer; give a "
                "model of one type on one device",
                field="workload",
            )
        self.weights, self._sizes = weights, [_padded(weight.numel()) for weight in weights]
        self.size = sum(self._sizes)
        memories = _memories(params)
        counts = params.optimizer == "adam"
        length = self.size * (1 + len(memories)) + counts
        self._rows = torch.zeros(2, length, dtype=weights[0].dtype, device=weights[0].device)
        self._now, self._kept = self._rows
        flat, *rows = torch.split(self._now[: length - counts], self.size)
        for weight, piece in zip(weights, self._cut(flat), strict=True):
            weight.data = piece.copy_(weight.detach())
        self._flat, self._gradient = nn.Parameter(flat), torch.zeros_like(flat)
        self._gradients = self._cut(self._gradient)
        self._optimizer = make_optimizer([self._flat], params)
        # The optimiser would start with zeros, too; set here, they are in the buffer.
        memory = dict(zip(memories, rows, strict=True)) | ({"step": self._now[-1]} if counts else {})
        if memory:
            self._optimizer.state[self._flat] = memory

    def keep(self) -> None:
        """Save the present state."""
        self._kept.copy_(self._now)

    def update(self, gradients: Sequence[Tensor]) -> None:
        """Make one optimiser step with a gradient for each weight."""
        torch._foreach_copy_(self._gradients, list(gradients))
        self._flat.grad = self._gradient
        self._optimizer.step()
        self._flat.grad = None

    def revert(self) -> None:
        """Restore weights and optimiser state of the last `keep`."""
        self._now.copy_(self._kept)

    def revert_weights(self) -> None:
        """Restore the weights of the last `keep`, but not the optimiser state."""
        self._now[: self.size].copy_(self._kept[: self.size])

    def pairs(self) -> list[Tensor]:
        """Views (2, *shape) of each weight: now, and at the last `keep`."""
        pieces = torch.split(self._rows[:, : self.size], self._sizes, dim=1)
        return [
            piece[:, : weight.numel()].view(2, *weight.shape)
            for piece, weight in zip(pieces, self.weights, strict=True)
        ]

    def _cut(self, flat: Tensor) -> list[Tensor]:
        """Views of a row of the buffer, one like each weight."""
        pieces = torch.split(flat, self._sizes)
        return [
            piece[: weight.numel()].view(weight.shape)
            for piece, weight in zip(pieces, self.weights, strict=True)
        ]

    def release(self) -> None:
        """Give every weight its own memory again."""
        for weight in self.weights:
            weight.data = weight.detach().clone()

    def state_dict(self) -> dict[str, Any]:
        """Present weights and optimiser state."""
        return {"now": self._now}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore saved weights and optimiser state."""
        self._now.copy_(state["now"])


def _memories(params: OptimizerParams) -> tuple[str, ...]:
    """Torch's names of the optimiser state of a weight."""
    if params.optimizer == "adam":
        return ("exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if params.momentum else ()


def _padded(size: int) -> int:
    """A number of elements rounded up, so that the next weight is aligned."""
    return -(-size // ALIGNED) * ALIGNED
