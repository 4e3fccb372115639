"""Heads on scattering features (Tramer and Boneh 2021)."""

from typing import Literal

from torch import nn

from workloads.models.activation import Activation, activation
from workloads.models.head import Widened
from workloads.models.init import seeded

Side = Literal[28, 32]
"""Of the images: 28 grey gives features (81, 7, 7), 32 colour (243, 8, 8)."""
SHAPES: dict[Side, tuple[int, int]] = {28: (81, 7), 32: (243, 8)}


def scatter_linear(seed: int, side: Side) -> nn.Sequential:
    """One linear layer: 39,700 parameters for 28 x 28 grey, 155,530 for 32 x 32 colour."""
    channels, size = SHAPES[side]
    with seeded(seed):
        return nn.Sequential(Widened(), nn.Flatten(), nn.Linear(channels * size**2, 10))


def scatter_cnn(seed: int, side: Side, act: Activation = "tanh") -> nn.Sequential:
    """The small CNN: 33,066 parameters for 28 x 28 grey, 187,210 for 32 x 32 colour."""
    with seeded(seed):
        layers = grey_layers(act) if side == 28 else colour_layers(act)
    return nn.Sequential(Widened(), *layers)


def grey_layers(act: Activation) -> list[nn.Module]:
    """For features (81, 7, 7)."""
    return [
        nn.Conv2d(81, 16, kernel_size=3, stride=2, padding=1),
        activation(act),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        activation(act),
        nn.Flatten(),
        nn.Linear(512, 32),
        activation(act),
        nn.Linear(32, 10),
    ]


def colour_layers(act: Activation) -> list[nn.Module]:
    """For features (243, 8, 8)."""
    return [
        nn.Conv2d(243, 64, kernel_size=3, padding=1),
        activation(act),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, kernel_size=3, padding=1),
        activation(act),
        nn.Flatten(),
        nn.Linear(1024, 10),
    ]
