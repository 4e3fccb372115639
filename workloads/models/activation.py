"""The activations a network can be built with."""

from typing import Literal

from torch import nn

Activation = Literal["relu", "sigmoid", "tanh"]

KINDS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


def activation(name: Activation) -> nn.Module:
    """A fresh activation layer."""
    return KINDS[name]()
