"""Contributions of two-dimensional convolutions: stored gradients, or norms and a sum by the library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.gradients.contributions import (
    Arena,
    Call,
    gram_squares,
    joined,
    masked,
    products,
    row_norms,
    trusted_roots,
)
from methods.gradients.kernels import (
    arranged,
    gram_is_cheaper,
    kernel_blocks,
    padded,
    pair,
    place_products,
    summed_gradient,
)
from workloads.models.wrn import Standardisation, StandardisedConv2d

Pull = Callable[[Tensor], Tensor]
"""A linear map from gradients of the weight used by a convolution to gradients of the stored weight."""


@dataclass(frozen=True)
class KernelGradients:
    """Stored gradients of a kernel and its bias, in the order of computation."""

    blocks: list[Tensor]
    """From `kernel_blocks`, before `pull`; empty if the kernel is not trained."""
    bias: Tensor | None
    """(B, outputs)"""
    norm: Tensor
    """(B,): after `pull`."""
    shape: torch.Size
    """Of the kernel."""
    pull: Pull

    def norms(self) -> Tensor:
        """See Contribution."""
        return self.norm

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        if self.blocks:
            summed = [(factors @ block.flatten(1)).view(1, *block.shape[1:]) for block in self.blocks]
            onto[0].add_(self.pull(arranged(summed, self.shape))[0])
        if self.bias is not None:
            onto[-1].addmv_(self.bias.t(), factors)

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        # A copy: the next batch reuses the memory of the blocks.
        gradients = [self.pull(arranged(self.blocks, self.shape)).clone()] if self.blocks else []
        return [*gradients, self.bias] if self.bias is not None else gradients

    def mask(self, good: Tensor) -> "KernelGradients":
        """See Contribution."""
        return replace(
            self,
            blocks=[masked(block, good) for block in self.blocks],
            bias=None if self.bias is None else masked(self.bias, good),
        )

    def take(self, rows: Tensor) -> "KernelGradients":
        """See Contribution."""
        return replace(
            self,
            blocks=[block[rows] for block in self.blocks],
            bias=None if self.bias is None else self.bias[rows],
            norm=self.norm[rows],
        )


@dataclass(frozen=True)
class KernelGram:
    """Gradients of a kernel with few positions, not formed (Li et al. 2022, ghost norms)."""

    layer: Any
    a: Tensor
    """(B, inputs, height, width)"""
    b: Tensor
    """(B, outputs, height, width): of the output."""
    bias: Tensor | None
    """(B, outputs)"""
    norm: Tensor
    """(B,): after `pull`."""
    pull: Pull

    def norms(self) -> Tensor:
        """See Contribution."""
        return self.norm

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        summed = summed_gradient(self.layer, self.a, self.b * factors[:, None, None, None])
        onto[0].add_(self.pull(summed[None])[0])
        if self.bias is not None:
            onto[-1].addmv_(self.bias.t(), factors)

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        gradients = [formed(self.layer, self.a, self.b, self.pull)]
        return [*gradients, self.bias] if self.bias is not None else gradients

    def mask(self, good: Tensor) -> "KernelGram":
        """See Contribution."""
        bias = None if self.bias is None else masked(self.bias, good)
        return replace(self, a=masked(self.a, good), b=masked(self.b, good), bias=bias)

    def take(self, rows: Tensor) -> "KernelGram":
        """See Contribution."""
        bias = None if self.bias is None else self.bias[rows]
        return replace(self, a=self.a[rows], b=self.b[rows], bias=bias, norm=self.norm[rows])


def convolve(call: Call, weight: bool, bias: bool) -> KernelGradients | KernelGram:
    """The contribution of a convolution; `weight` and `bias`: whether each of them is trained."""
    layer: Any = call.layer.module
    b, shape = call.b, layer.weight.shape
    of_bias = b.sum(dim=(2, 3)) if bias else None
    norms = [] if of_bias is None else [row_norms(of_bias)]
    if not weight:
        return KernelGradients([], of_bias, joined(norms), shape, unchanged)
    a = call.a.contiguous(memory_format=torch.channels_last)
    if a.device.type != "cpu":
        return stored_gradients(call, a, of_bias, norms)
    left_out = LeftOut.of(layer, a, call) if isinstance(layer, StandardisedConv2d) else None
    pull = left_out.made.pull_back if left_out else unchanged
    if gram_is_cheaper(layer, a, b):
        norms.append(few_places_norms(layer, a, b, left_out))
        return KernelGram(layer, a, b, of_bias, joined(norms), pull)
    blocks = kernel_blocks(layer, a, b, call.arena)
    norms += [left_out.norms(blocks)] if left_out else [row_norms(block.flatten(1)) for block in blocks]
    return KernelGradients(blocks, of_bias, joined(norms), shape, pull)


def few_places_norms(layer: Any, a: Tensor, b: Tensor, left_out: "LeftOut | None") -> Tensor:
    """(B,): norms of the stored kernel's gradients from the inputs and gradients at all pairs of places."""
    rows = b.flatten(2).transpose(1, 2)
    if left_out:
        rows = rows * left_out.made.scale.flatten()
    squares, scale = gram_squares(place_products(layer, a, *b.shape[2:]), products(rows))
    pull = left_out.made.pull_back if left_out else unchanged

    def form(row: int) -> Tensor:
        return formed(layer, a[[row]], b[[row]], pull)

    return trusted_roots(squares - left_out.squares if left_out else squares, scale, form)


def formed(layer: Any, a: Tensor, b: Tensor, pull: Pull) -> Tensor:
    """(B, *shape of the kernel): the gradients themselves."""
    return pull(arranged(kernel_blocks(layer, a, b, Arena()), layer.weight.shape))


def stored_gradients(call: Call, a: Tensor, of_bias: Tensor | None, norms: list[Tensor]) -> KernelGradients:
    """A convolution's contribution without synchronisation: the norms are those of stored gradients.

    Cheaper norms come from terms that may cancel; checking which do would wait for the device.
    """
    layer: Any = call.layer.module
    shape = layer.weight.shape
    blocks = kernel_blocks(layer, a, call.b, call.arena)
    if isinstance(layer, StandardisedConv2d):
        pull = standardised(layer, call).pull_back
        norms = [*norms, row_norms(pull(arranged(blocks, shape)).flatten(1))]
    else:
        pull = unchanged
        norms = [*norms, *(row_norms(block.flatten(1)) for block in blocks)]
    return KernelGradients(blocks, of_bias, joined(norms), shape, pull)


def unchanged(gradients: Tensor) -> Tensor:
    """The `pull` of a plain convolution."""
    return gradients


@dataclass(frozen=True)
class LeftOut:
    """The components of a kernel's gradients g that standardisation removes: the mean and the part along r.
    The two are orthogonal, so for each output the squared norm of the stored kernel's gradient is
    scale^2 (|g|^2 - fan_in mean(g)^2 - <r, g>^2). Neither needs g: fan_in mean(g) is the sum over places of b
    times the sum of the inputs the kernel sees there, <r, g> the sum of b times the output.
    """

    made: Standardisation
    squares: Tensor
    """(B,): the sum over outputs of scale^2 (fan_in mean(g)^2 + <r, g>^2)."""

    @classmethod
    def of(cls, layer: StandardisedConv2d, a: Tensor, call: Call) -> "LeftOut":
        """From the input and what is known of the call."""
        b, y, count, groups = call.b, call.y, len(a), layer.groups
        made = standardised(layer, call)
        if y is None or layer.bias is not None:
            y = layer._conv_forward(a, made.kernel, None)
        along = (b * y).sum(dim=(2, 3)).mul_(made.free.flatten())
        seen = window_sums(padded(layer, a.reshape(count, groups, -1, *a.shape[2:]).sum(dim=2)), layer)
        # A row times a matrix, in the layout of b: quicker than the matrix times a column.
        places = b.reshape(count * groups, -1, seen[0, 0].numel()).transpose(1, 2)
        means = torch.bmm(seen.reshape(count * groups, 1, -1), places)
        means = means.view(count, -1).mul_(layer.weight[0].numel() ** -0.5)
        return cls(made, (means.square_() + along.square_()) @ made.scale.flatten().square())

    def norms(self, blocks: Sequence[Tensor]) -> Tensor:
        """(B,): of the stored kernel's gradients, from blocks of the standardised kernel's."""
        whole = joined([torch.linalg.vector_norm(block, dim=3).flatten(1) for block in blocks])
        scale = whole.square_() @ self.made.scale.flatten().square()

        def form(row: int) -> Tensor:
            kernel = arranged([block[[row]] for block in blocks], self.made.kernel.shape)
            return self.made.pull_back(kernel)

        return trusted_roots(scale - self.squares, scale, form)


def standardised(layer: StandardisedConv2d, call: Call) -> Standardisation:
    """The standardisation of the call, computed again if the call did not keep it."""
    if isinstance(call.used, Standardisation):
        return call.used
    with torch.no_grad():
        return layer.standardisation()


def window_sums(x: Tensor, layer: StandardisedConv2d) -> Tensor:
    """The sum of a padded input over every position of the kernel, each channel by itself."""
    stride, dilation = pair(layer.stride), pair(layer.dilation)
    if dilation == (1, 1):  # a quarter of the time of a convolution with ones (measured)
        return F.avg_pool2d(x, pair(layer.kernel_size), stride, divisor_override=1)
    ones = x.new_ones(x.shape[1], 1, *layer.kernel_size)
    return F.conv2d(x, ones, None, stride, 0, dilation, x.shape[1])
