"""Parameters of gradient descent on noisy sums of clipped gradients, and their search space."""

from typing import Annotated

from pydantic import Field

from methods.base import Count, Fraction, Rate
from methods.search import Fixed, Search
from methods.training.optimizer import OptimizerParams


class NoisyDescentParams(OptimizerParams):
    """Parameters of a method of noisy gradient steps.

    Momentum is not searched: it moves the weights further by the same noise, as a larger step does.
    """

    steps: Annotated[Count, Search(4, 100, unit="epochs", axis=2)] = Field(
        default=500, description="Training steps."
    )
    batch_size: Annotated[Count, Search(1 / 16, 1, unit="rate", axis=1)] = Field(
        default=64,
        description="Expected examples per step: every member is drawn with probability batch_size / n.",
    )
    learning_rate: Annotated[Rate, Search(0.1, 16, unit="step", axis=0)] = Field(
        default=0.1, description="Learning rate."
    )
    momentum: Annotated[Fraction, Fixed(0.0)] = Field(default=0.0, description="Momentum of optimizer 'sgd'.")
