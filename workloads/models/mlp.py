"""Fully connected networks."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from workloads.models.init import seeded


def mlp(widths: Sequence[int], seed: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them; two widths make a linear model."""
    if len(widths) < 2:
        raise ValueError(f"an MLP needs an input and an output width, got {list(widths)}")
    layers: list[nn.Module] = []
    with seeded(seed):
        for fan_in, fan_out in pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
