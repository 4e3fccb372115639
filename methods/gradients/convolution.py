"""Per-example gradients of two-dimensional convolutions, a few rows of the kernel at a time.

The usual im2col copies the input into columns (kernel height x kernel width times larger) and multiplies.
Here only the kernel's width is unrolled, and as many of its rows as the stride skips: with positions in row
order, the input of these kernel rows is one contiguous slice of that copy, which enters the product directly.
With channels last, each position's part of the copy is one contiguous slice of the input. Kernel rows of few
entries are unrolled together, since narrow products are slow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.gradients.contributions import (
    Arena,
    Call,
    Sequences,
    gram_is_cheaper,
    gram_norms,
    gram_squares,
    joined,
    masked,
    row_norms,
    trusted_roots,
)
from workloads.models.wrn import Standardisation, StandardisedConv2d

# Unrolled entries at a time: on a CPU small enough for the cache, elsewhere many examples per call.
AT_ONCE = 2**18
AT_ONCE_ELSEWHERE = 2**26
# With fewer entries of the kernel in a product, one product of all its entries is quicker (measured).
NARROW = 16

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
        gradients = [self.pull(arranged(self.blocks, self.shape))] if self.blocks else []
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
    """Gradients of a kernel with few positions, not formed: the positions are a sequence."""

    places: Sequences
    """Columns in the order of a block of all kernel rows."""
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
        summed = onto[0].new_zeros(self.shape[0], self.shape[1:].numel())
        self.places.add_to([summed, *onto[1:]], factors)
        onto[0].add_(self.pull(arranged([summed[None]], self.shape))[0])

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        kernel, *bias = self.places.examples()
        return [self.pull(arranged([kernel], self.shape)), *bias]

    def mask(self, good: Tensor) -> "KernelGram":
        """See Contribution."""
        return replace(self, places=self.places.mask(good))

    def take(self, rows: Tensor) -> "KernelGram":
        """See Contribution."""
        return replace(self, places=self.places.take(rows), norm=self.norm[rows])


def convolve(call: Call, weight: bool, bias: bool) -> KernelGradients | KernelGram:
    """The contribution of a convolution; `weight` and `bias`: whether each of them is trained."""
    layer: Any = call.layer.module
    b, shape = call.b, layer.weight.shape
    of_bias = b.sum(dim=(2, 3)) if bias else None
    norms = [] if of_bias is None else [row_norms(of_bias)]
    if not weight:
        return KernelGradients([], of_bias, joined(norms), shape, unchanged)
    x = padded(layer, call.a.contiguous(memory_format=torch.channels_last))
    if x.device.type != "cpu":
        return stored_gradients(call, x, of_bias, norms)
    left_out = LeftOut.of(layer, x, call) if isinstance(layer, StandardisedConv2d) else None
    pull = left_out.made.pull_back if left_out else unchanged
    if layer.groups == 1 and gram_is_cheaper(b[0, 0].numel(), shape[1:].numel(), shape[0]):
        columns = unroll(layer, x, shape[2], b.shape[3])
        places = Sequences(columns, b.flatten(2).transpose(1, 2), bias)
        norms.append(left_out.gram_norms(places) if left_out else gram_norms(places.a, places.b))
        return KernelGram(places, joined(norms), shape, pull)
    blocks = kernel_blocks(layer, x, b, call.arena)
    norms += [left_out.norms(blocks)] if left_out else [row_norms(block.flatten(1)) for block in blocks]
    return KernelGradients(blocks, of_bias, joined(norms), shape, pull)


def stored_gradients(call: Call, x: Tensor, of_bias: Tensor | None, norms: list[Tensor]) -> KernelGradients:
    """A convolution's contribution without synchronisation: the norms are those of stored gradients.

    Cheaper norms come from terms that may cancel; checking which do would wait for the device.
    """
    layer: Any = call.layer.module
    shape = layer.weight.shape
    blocks = kernel_blocks(layer, x, call.b, call.arena)
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
    def of(cls, layer: StandardisedConv2d, x: Tensor, call: Call) -> "LeftOut":
        """From the padded input and what is known of the call."""
        b, y, count, groups = call.b, call.y, len(x), layer.groups
        stride, dilation = pair(layer.stride), pair(layer.dilation)
        made = standardised(layer, call)
        if y is None or layer.bias is not None:
            y = F.conv2d(x, made.kernel, None, stride, 0, dilation, groups)
        along = (b * y).sum(dim=(2, 3)).mul_(made.free.flatten())
        seen = window_sums(x.reshape(count, groups, -1, *x.shape[2:]).sum(dim=2), layer)
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

    def gram_norms(self, places: Sequences) -> Tensor:
        """(B,): the same from the inputs at every position."""
        whole, scale = gram_squares(places.a, places.b * self.made.scale.flatten())

        def form(row: int) -> Tensor:
            kernel = (places.b[row].t() @ places.a[row])[None]
            return self.made.pull_back(arranged([kernel], self.made.kernel.shape))

        return trusted_roots(whole - self.squares, scale, form)


def standardised(layer: StandardisedConv2d, call: Call) -> Standardisation:
    """The standardisation of the call, computed again if the call did not keep it."""
    if isinstance(call.used, Standardisation):
        return call.used
    with torch.no_grad():
        return layer.standardisation()


def window_sums(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """The sum of a padded input over every position of the kernel, each channel by itself."""
    stride, dilation = pair(layer.stride), pair(layer.dilation)
    if dilation == (1, 1):  # a quarter of the time of a convolution with ones (measured)
        return F.avg_pool2d(x, pair(layer.kernel_size), stride, divisor_override=1)
    ones = x.new_ones(x.shape[1], 1, *layer.kernel_size)
    return F.conv2d(x, ones, None, stride, 0, dilation, x.shape[1])


def kernel_blocks(layer: nn.Conv2d, x: Tensor, b: Tensor, arena: Arena) -> list[Tensor]:
    """Every example's kernel gradient, in blocks (B, groups, outputs, kernel rows * kernel width * inputs).

    Inputs and outputs are those of one group. The entry of kernel row i, example n, input c, column j and
    output o is the sum over places p of b[n, o, p] times the padded x[n, c] at stride p + dilation (i, j).
    """
    outputs, inputs, height, width = layer.weight.shape
    high, wide = b.shape[2:]
    at_once = rows_at_once(layer)
    blocks = [
        arena.empty((len(x), layer.groups, outputs // layer.groups, rows * width * inputs), x)
        for rows in (min(at_once, height - top) for top in range(0, height, at_once))
    ]
    # If the last block has fewer rows, the copy below reads beyond their input, and the rest is not used.
    missing = (
        (len(blocks) - 1) * at_once * layer.dilation[0] + (high - 1) * layer.stride[0] + at_once - x.shape[2]
    )
    x = F.pad(x, (0, 0, 0, missing)) if missing > 0 else x
    copied = x[0].numel() // x.shape[3] * wide * width * max(1, at_once // layer.stride[0])
    size = max(1, (AT_ONCE if x.device.type == "cpu" else AT_ONCE_ELSEWHERE) // copied)
    for start in range(0, len(x), size):
        chunk = slice(start, start + size)
        _fill([block[chunk] for block in blocks], layer, x[chunk], b[chunk])
    return blocks


def rows_at_once(layer: nn.Conv2d) -> int:
    """Number of kernel rows that share one copy: those that never see the same input row, or all of few."""
    _, inputs, height, width = layer.weight.shape
    apart = min(layer.stride[0], height) if layer.dilation[0] == 1 else 1
    return height if apart * width * inputs < NARROW else apart


def _fill(blocks: Sequence[Tensor], layer: nn.Conv2d, x: Tensor, b: Tensor) -> None:
    high, wide = b.shape[2:]
    b = b.reshape(len(x) * layer.groups, -1, high * wide)
    offset, stride = rows_at_once(layer) * layer.dilation[0], layer.stride[0]
    unrolled: dict[int, Tensor] = {}
    for number, block in enumerate(blocks):
        # A kernel row i sees the input rows i * dilation + stride * p: consecutive ones of a phase.
        first, phase = divmod(number * offset, stride)
        if phase not in unrolled:
            unrolled[phase] = unroll(layer, x[:, :, phase:], rows_at_once(layer), wide)
        run = unrolled[phase][:, first * wide : (first + high) * wide, : block.shape[3]]
        torch.bmm(b, run, out=block.flatten(0, 1))


def unroll(layer: nn.Conv2d, x: Tensor, at_once: int, places: int) -> Tensor:
    """(B * groups, rows * places, at_once * kernel width * inputs): the input of kernel rows by position."""
    count, channels, height, _ = x.shape
    inputs, groups = channels // layer.groups, layer.groups
    of_example, of_channel, of_row, of_column = x.stride()
    stride, dilation = pair(layer.stride), pair(layer.dilation)
    rows = (height - 1 - (at_once - 1) * dilation[0]) // stride[0] + 1
    sizes = (count, groups, rows, places, at_once, layer.kernel_size[1], inputs)
    to_next_place = (of_row * stride[0], of_column * stride[1])
    within_place = (of_row * dilation[0], of_column * dilation[1], of_channel)
    strides = (of_example, of_channel * inputs, *to_next_place, *within_place)
    view = x.as_strided(sizes, strides, x.storage_offset())
    return view.reshape(count * groups, rows * places, -1)


def padded(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The input with the layer's padding around it."""
    widths = layer._reversed_padding_repeated_twice
    if not any(widths):
        return x
    return F.pad(x, widths, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def arranged(blocks: Sequence[Tensor], shape: torch.Size) -> Tensor:
    """`kernel_blocks` to (B, *shape of the kernel), with channels last, the order of computation."""
    outputs, inputs, _, width = shape
    parts = [block.view(len(block), outputs, -1, width, inputs) for block in blocks]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)).permute(0, 1, 4, 2, 3)


def pair(values: tuple[int, ...]) -> tuple[int, int]:
    """Height and width."""
    return values[0], values[1]
