"""Wide residual networks for private training: group normalisation and standardised convolutions."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workloads.models.init import seeded

GROUPS = 16
"""Of every normalisation, as in De et al. 2022."""


@dataclass(frozen=True)
class Standardisation:
    """The Jacobian of standardisation, applied to a gradient g: scale * (g - mean(g) - r <r, g>).

    It is symmetric: the scaled projection that removes the mean and the direction r.
    """

    scale: Tensor
    """(outputs, 1, 1, 1)"""
    free: Tensor
    """(outputs, 1, 1, 1): 1 if the scale follows the kernel, 0 if it is at its floor."""
    kernel: Tensor
    """The standardised kernel; r is `free` times it, of norm 1 or 0 and mean 0."""

    def pull_back(self, gradients: Tensor) -> Tensor:
        """Gradients (B, *kernel shape) of the standardised kernel as gradients of the stored one."""
        centred = gradients - gradients.mean(dim=(2, 3, 4), keepdim=True)
        along = (centred * self.kernel).sum(dim=(2, 3, 4), keepdim=True).mul_(self.free)
        return centred.addcmul_(along, self.kernel, value=-1.0).mul_(self.scale)


class StandardisedConv2d(nn.Conv2d):
    """A convolution with the kernel of every output shifted to mean 0 and scaled to norm 1.

    Scaled weight standardisation as De et al. 2022 use it (Qiao et al. 2019; Brock et al. 2021), without the
    gain: the normalisation that follows has one.
    """

    # Below this squared norm a kernel is no longer scaled up.
    floor = 1e-4
    used: Standardisation | None = None
    """Of the last call, for its hooks; None if the weights were being trained by autograd."""

    def standardisation(self) -> Standardisation:
        """The kernel that the convolution uses, and the map from its gradients to the stored kernel's."""
        centred = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        squares = centred.square().sum(dim=(1, 2, 3), keepdim=True)
        scale = squares.clamp(min=self.floor).rsqrt()
        return Standardisation(scale, (squares > self.floor).to(scale.dtype), centred * scale)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve with the standardised kernel."""
        made = self.standardisation()
        if not torch.compiler.is_compiling():
            # A graph must not outlive its pass; hooks are called next and may take it.
            self.used = None if self.weight.requires_grad or not self._forward_hooks else made
        convolved: Tensor = self._conv_forward(x, made.kernel, self.bias)
        return convolved


class Block(nn.Module):
    """Normalise, activate, convolve, twice; added to the input, or to its projection if widths differ."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, inputs)
        self.conv1 = StandardisedConv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(GROUPS, outputs)
        self.conv2 = StandardisedConv2d(outputs, outputs, 3, padding=1, bias=False)
        self.project: nn.Module | None = None
        if inputs != outputs or stride != 1:
            self.project = StandardisedConv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both paths."""
        active = F.relu(self.norm1(x))
        around = x if self.project is None else self.project(active)
        deep: Tensor = self.conv2(F.relu(self.norm2(self.conv1(active))))
        return around + deep


class WideResNet(nn.Module):
    """WRN-depth-width (Zagoruyko and Komodakis 2016) with GroupNorm in place of batch normalisation."""

    def __init__(self, depth: int, width: int, classes: int) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"the depth of a wide ResNet is 6 n + 4 with n >= 1, got {depth}")
        blocks: list[nn.Module] = []
        inputs = 16
        for stage, outputs in enumerate((16 * width, 32 * width, 64 * width)):
            for index in range((depth - 4) // 6):
                blocks.append(Block(inputs, outputs, stride=2 if stage and not index else 1))
                inputs = outputs
        self.stem = StandardisedConv2d(3, 16, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.GroupNorm(GROUPS, inputs)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (B, 3, H, W) images."""
        deep = F.relu(self.norm(self.blocks(self.stem(x))))
        logits: Tensor = self.head(deep.mean(dim=(2, 3)))
        return logits


def wrn(seed: int, depth: int, width: int, classes: int) -> WideResNet:
    """A fresh wide ResNet: `wrn(seed, 16, 4, 10)` is WRN-16-4."""
    with seeded(seed):
        return WideResNet(depth, width, classes)
