"""Contributions of convolutions whose gradients are formed in the cache, one example at a time."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from methods.gradients.base import GUARD
from methods.gradients.contributions import Arena, Call, masked
from methods.gradients.convolution import Pull, formed, standardised, unchanged
from methods.gradients.kernels import padded, pair
from methods.gradients.native import library
from workloads.models.wrn import Standardisation, StandardisedConv2d

# Entries of a kernel: an example's gradient and the sum should stay in the cache.
ENTRIES = 2**19


@dataclass(frozen=True)
class Convolved:
    """The gradients of a convolution's kernel and bias, not formed."""

    layer: Any
    a: Tensor
    """(B, inputs, height, width), channels last: the input."""
    b: Tensor
    """(B, outputs, height, width), channels last: the gradient of the output."""
    bias: bool
    """Whether the bias is trained."""
    arena: Arena
    made: Standardisation | None = None
    """Of a standardised convolution: gradients in the cache are those of its kernel."""

    @property
    def pull(self) -> Pull:
        """From gradients of the kernel in use to those of the stored one."""
        return self.made.pull_back if self.made else unchanged

    def removed(self) -> Tensor | None:
        """Of a standardised convolution (entries + 1, padded outputs): directions, then scales."""
        if self.made is None:
            return None
        outputs, entries = len(self.made.scale), self.made.kernel[0].numel()
        removed = self.b.new_zeros(entries + 1, width_of(self))
        directions = (self.made.kernel * self.made.free).permute(0, 2, 3, 1)
        removed[:entries, :outputs] = directions.reshape(outputs, entries).t()
        removed[entries, :outputs] = self.made.scale.flatten()
        return removed

    def frame(self) -> tuple[int, int, int, int]:
        """Zeros around the input: left, right, top, bottom."""
        left, right, top, bottom = self.layer._reversed_padding_repeated_twice
        return (left, right, top, bottom) if self.layer.padding_mode == "zeros" else (0, 0, 0, 0)

    def input(self) -> Tensor:
        """The input within its frame; any other padding is part of it."""
        return self.a if self.layer.padding_mode == "zeros" else last(padded(self.layer, self.a))

    def norms(self) -> Tensor:
        """See Contribution."""
        return run([self], nothing(self.b)).norms

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        (sums,) = run([self], nothing(self.b), factors, sums=True).sums
        self.deliver(sums, onto)

    def deliver(self, sums: Tensor, onto: Sequence[Tensor]) -> None:
        """Add what `run` has summed to the sums of kernel and bias."""
        outputs, inputs, height, width = self.layer.weight.shape
        entries = height * width * inputs
        # Copied into the order of the weights: a quarter of the time of strided sums (measured).
        kernel = sums[:entries, :outputs].t().contiguous().view(1, outputs, height, width, inputs)
        onto[0].add_(self.pull(kernel.permute(0, 1, 4, 2, 3))[0])
        if self.bias:
            onto[1].add_(sums[entries, :outputs])

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        gradients = [formed(self.layer, self.a, self.b, self.pull).clone()]
        return [*gradients, self.b.sum(dim=(2, 3))] if self.bias else gradients

    def take(self, rows: Tensor) -> "Convolved":
        """See Contribution."""
        return replace(self, a=last(self.a[rows]), b=last(self.b[rows]))

    def mask(self, good: Tensor) -> "Convolved":
        """See Contribution."""
        return replace(self, a=last(masked(self.a, good)), b=last(masked(self.b, good)))


def convolve(module: nn.Conv2d, call: Call) -> Convolved:
    """The contribution of one call of a convolution that fits and whose weight is trained."""
    made = standardised(module, call) if isinstance(module, StandardisedConv2d) else None
    return Convolved(module, last(call.a), last(call.b), "bias" in call.layer.weights, call.arena, made)


def fits(module: nn.Module) -> TypeGuard[nn.Conv2d]:
    """Whether a layer is a convolution whose gradient fits into the cache, by the model alone."""
    return (
        isinstance(module, nn.Conv2d)
        and type(module) in (nn.Conv2d, StandardisedConv2d)
        and module.groups == 1
        and module.weight.numel() <= ENTRIES
        and library.computes(module.weight)
    )


@dataclass(frozen=True)
class Formed:
    """What a run over all examples has found."""

    norms: Tensor
    """(B,)"""
    factors: Tensor
    """(B,): 0 for a gradient that is not finite."""
    sums: list[Tensor]
    """Of every layer, for `deliver`; none if not asked for."""


def run(
    layers: Sequence[Convolved],
    others: Tensor,
    factors: Tensor | None = None,
    clip: float = math.inf,
    share: float = 1.0,
    sums: bool = False,
) -> Formed:
    """Form the gradients of these layers, example by example.

    Args:
        layers: Of one batch.
        others: (B,): the norms of the rest of every example's gradient.
        factors: (B,) of the examples in the sums; None for those of clipping by `clip` and `share`.
        clip: As in Engine.clipped_sum.
        share: As in Engine.clipped_sum.
        sums: Whether to compute sums.
    """
    like = layers[0].b
    norms = torch.empty_like(others)
    clips = factors is None and sums
    weights = torch.zeros_like(others) if factors is None else factors.to(others.dtype).contiguous()
    made = [layer_sums(layer) if sums else None for layer in layers]
    # What is made for the call lives as long as the pointers to it.
    inputs, removed = [layer.input() for layer in layers], [layer.removed() for layer in layers]
    given = [describe(*each) for each in zip(layers, inputs, removed, made, strict=True)]
    size = sum(scratch_of(*each) for each in zip(layers, given, strict=True))
    scratch = layers[0].arena.empty((size,), like)
    library.load(like.dtype).convolutions(
        (library.Convolution * len(given))(*given),
        ctypes.c_long(len(given)),
        ctypes.c_long(like.shape[0]),
        library.pointer(others),
        ctypes.c_long(clips),
        ctypes.c_double(clip),
        ctypes.c_double(share),
        ctypes.c_double(GUARD),
        library.pointer(scratch),
        library.pointer(norms),
        library.pointer(weights),
    )
    return Formed(norms, weights, [each for each in made if each is not None])


def describe(layer: Convolved, a: Tensor, removed: Tensor | None, sums: Tensor | None) -> library.Convolution:
    """A layer for C: all distances are in numbers."""
    module, (inputs, rows, columns) = layer.layer, a.shape[1:]
    (height, width), stride, dilation = module.kernel_size, pair(module.stride), pair(module.dilation)
    left, right, top, bottom = layer.frame()
    line = (left + columns + right) * inputs
    # Neighbours in a kernel row are neighbours in the input, unless the kernel is dilated.
    runs, run_of = (1, width * inputs) if dilation[1] == 1 else (width, inputs)
    high, wide = layer.b.shape[2:]
    return library.Convolution(
        a=a.data_ptr(),
        b=layer.b.data_ptr(),
        height=rows,
        line=columns * inputs,
        top=top,
        left=left * inputs,
        framed=top + rows + bottom,
        framed_line=line,
        places=library.Places(high, wide, stride[0] * line, stride[1] * inputs, 1),
        rows=height,
        runs=runs,
        run=run_of,
        to_row=dilation[0] * line,
        to_run=dilation[1] * inputs,
        outputs=layer.b.shape[1],
        bias=layer.bias,
        removed=None if removed is None else removed.data_ptr(),
        sum=None if sums is None else sums.data_ptr(),
    )


def scratch_of(layer: Convolved, given: library.Convolution) -> int:
    """Numbers that C needs beside the layer's sums: a gradient, a framed input, and b in whole vectors."""
    places = layer.b.shape[2] * layer.b.shape[3]
    return (rows_of(layer) + places) * width_of(layer) + int(given.framed * given.framed_line)


def layer_sums(layer: Convolved) -> Tensor:
    """Zeros for the sums of a layer: a row for every entry of the kernel, and one for the bias."""
    return layer.arena.empty((rows_of(layer), width_of(layer)), layer.b).zero_()


def rows_of(layer: Convolved) -> int:
    """Entries of the kernel for one output, and one for the bias."""
    return int(layer.layer.weight[0].numel()) + layer.bias


def width_of(layer: Convolved) -> int:
    """Outputs, padded to whole vectors."""
    return library.padded(layer.layer.weight.shape[0], layer.b)


def nothing(b: Tensor) -> Tensor:
    """(B,): norms of an empty rest."""
    return b.new_zeros(b.shape[0])


def last(images: Tensor) -> Tensor:
    """The images with channels last in memory."""
    return images.contiguous(memory_format=torch.channels_last)
