"""Tempered sigmoids: bounded activations, which keep gradients short enough to survive clipping."""

import torch
from torch import Tensor, nn

ACTIVATIONS = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Softplus,
    nn.Sigmoid,
    nn.Tanh,
)
"""What a tempered sigmoid can stand for: functions of every entry by itself without weights."""


class TemperedSigmoid(nn.Module):
    """scale * sigmoid(temperature * x) - offset, entry by entry (Papernot et al. 2021); (2, 2, 1) is tanh."""

    def __init__(self, scale: float, temperature: float, offset: float) -> None:
        super().__init__()
        self.scale, self.temperature, self.offset = scale, temperature, offset

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return self.scale * torch.sigmoid(self.temperature * x) - self.offset

    def extra_repr(self) -> str:
        """The three numbers."""
        return f"scale={self.scale:g}, temperature={self.temperature:g}, offset={self.offset:g}"


def temper(model: nn.Module, scale: float, temperature: float, offset: float) -> int:
    """Put a tempered sigmoid in the place of every activation of the model; how many there were.

    Only modules are found: what a model calls as a function in its `forward`, or inside a recurrent layer,
    stays. Weights and their names stay too.
    """
    places = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, ACTIVATIONS)
    ]
    for parent, name in places:
        setattr(parent, name, TemperedSigmoid(scale, temperature, offset))
    return len(places)
