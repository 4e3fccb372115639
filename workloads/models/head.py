"""Linear heads on frozen features."""

import torch
from torch import Tensor, nn

from workloads.models.init import seeded


class Widened(nn.Module):
    """A cast to float32, for records stored in half precision."""

    def forward(self, x: Tensor) -> Tensor:
        """The same values in float32."""
        return x.to(torch.float32)


def linear_head(seed: int, features: int, classes: int, bias: bool = True) -> nn.Sequential:
    """One linear layer on features in half precision."""
    with seeded(seed):
        return nn.Sequential(Widened(), nn.Linear(features, classes, bias=bias))
