"""Averages of a run's iterates: less noisy than the last, and free, as post-processing."""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from methods.base import Fraction, Params
from methods.search import Fixed


class AveragingParams(Params):
    """Which iterate is released."""

    averaging: Annotated[Fraction, Fixed(0.0)] = Field(
        default=0.0,
        description="Decay of the moving average of the weights that is released; 0: the last iterate.",
    )


class Average:
    """An exponential moving average of weights. Part of the state of `run.steps`.

    After t steps its decay is min(decay, t / (9 + t)), so that the initial weights soon vanish (De et al.
    2022).
    """

    def __init__(self, weights: Sequence[nn.Parameter], decay: float) -> None:
        self.weights, self.decay = weights, decay
        self.steps = 0
        self.means = [weight.detach().clone() for weight in weights]

    def add(self) -> None:
        """Add the present weights."""
        self.steps += 1
        share = 1 - min(self.decay, self.steps / (9 + self.steps))
        torch._foreach_lerp_(self.means, [weight.detach() for weight in self.weights], share)

    def release(self) -> None:
        """Copy the average into the model."""
        with torch.no_grad():
            torch._foreach_copy_(list(self.weights), self.means)

    def state_dict(self) -> dict[str, Any]:
        """The average and the count of steps."""
        return {"steps": self.steps, "means": list(self.means)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved average."""
        self.steps = int(state["steps"])
        means: list[Tensor] = state["means"]
        torch._foreach_copy_(self.means, [mean.to(own) for mean, own in zip(means, self.means, strict=True)])
