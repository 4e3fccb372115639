"""Per-example gradients of two-dimensional convolutions, one row of the kernel at a time.

The usual way copies the input into columns (kernel height x kernel width times larger) and multiplies. Here
only the kernel's width is unrolled: with its rows laid out one after the other, the input that a kernel row
sees is one contiguous run of that copy, and the run goes into the product as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

from methods.gradients.contributions import (
    TRUSTED,
    Arena,
    Call,
    gram_is_cheaper,
    gram_norms,
    joined,
    row_norms,
)
from workloads.models.wrn import Standardisation, StandardisedConv2d

# Unrolled entries at a time: small enough for the caches, large enough for few calls.
AT_ONCE = 2**18

Pull = Callable[[Tensor], Tensor]
"""Takes gradients of the weight a convolution used to gradients of the weight it stores: linear."""


@dataclass(frozen=True)
class KernelGradients:
    """Stored gradients of a kernel, and of its bias, in the order in which they are computed."""

    rows: Tensor | None
    """As `kernel_rows` gives them: before `pull`."""
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
        if self.rows is not None:
            summed = torch.stack([factors @ row.flatten(1) for row in self.rows])
            kernel = arranged(summed.view(len(summed), 1, *self.rows.shape[2:]), self.shape)
            onto[0].add_(self.pull(kernel)[0])
        if self.bias is not None:
            onto[-1].addmv_(self.bias.t(), factors)

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        gradients = [self.pull(arranged(self.rows, self.shape))] if self.rows is not None else []
        return [*gradients, self.bias] if self.bias is not None else gradients

    def take(self, rows: Tensor) -> "KernelGradients":
        """See Contribution."""
        return replace(
            self,
            rows=None if self.rows is None else self.rows[:, rows],
            bias=None if self.bias is None else self.bias[rows],
            norm=self.norm[rows],
        )


@dataclass(frozen=True)
class KernelGram:
    """Gradients of a kernel on few places: norms from Gram matrices, sums from one ordinary backward."""

    layer: nn.Conv2d
    x: Tensor
    """(B, inputs, height, width), padded."""
    b: Tensor
    """(B, outputs, height, width)"""
    bias: bool

    def norms(self) -> Tensor:
        """See Contribution."""
        layer = self.layer
        size, stride, dilation = map(pair, (layer.kernel_size, layer.stride, layer.dilation))
        columns = F.unfold(self.x, size, dilation, 0, stride)
        norms = gram_norms(columns.transpose(1, 2), self.b.flatten(2).transpose(1, 2))
        return joined([norms, row_norms(self.b.sum(dim=(2, 3)))]) if self.bias else norms

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        scaled = self.b * factors[:, None, None, None]
        stride, dilation = pair(self.layer.stride), pair(self.layer.dilation)
        weight = self.layer.weight
        onto[0].add_(conv2d_weight(self.x, weight.shape, scaled, stride, 0, dilation))  # type: ignore[no-untyped-call]
        if self.bias:
            onto[1].add_(scaled.sum(dim=(0, 2, 3)))

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        gradients = [arranged(kernel_rows(self.layer, self.x, self.b, Arena()), self.layer.weight.shape)]
        return [*gradients, self.b.sum(dim=(2, 3))] if self.bias else gradients

    def take(self, rows: Tensor) -> "KernelGram":
        """See Contribution."""
        return replace(self, x=self.x[rows], b=self.b[rows])


def convolve(call: Call, weight: bool, bias: bool) -> KernelGradients | KernelGram:
    """The contribution of a convolution; `weight` and `bias` say which of them trains."""
    layer: Any = call.layer.module
    b, shape = call.b, layer.weight.shape
    x = padded(layer, call.a)
    standardised = isinstance(layer, StandardisedConv2d)
    few = gram_is_cheaper(b[0, 0].numel(), shape[1:].numel(), shape[0])
    if weight and few and layer.groups == 1 and not standardised:
        return KernelGram(layer, x, b, bias)
    of_bias = b.sum(dim=(2, 3)) if bias else None
    norms = [] if of_bias is None else [row_norms(of_bias)]
    rows, pull = None, unchanged
    if weight:
        rows = kernel_rows(layer, x, b, call.arena)
        if standardised:
            with torch.no_grad():
                standardisation = layer.standardisation()
            norms.append(standardised_norms(layer, standardisation, rows, x, b, call.y))
            pull = standardisation.pull_back
        else:
            norms.append(kernel_norms(rows))
    return KernelGradients(rows, of_bias, joined(norms), shape, pull)


def unchanged(gradients: Tensor) -> Tensor:
    """The `pull` of a plain convolution."""
    return gradients


def kernel_norms(rows: Tensor) -> Tensor:
    """(B,): the norms of stored rows."""
    norms: Tensor = torch.linalg.vector_norm(torch.linalg.vector_norm(rows.flatten(2), dim=2), dim=0)
    return norms


def standardised_norms(
    layer: StandardisedConv2d, made: Standardisation, rows: Tensor, x: Tensor, b: Tensor, y: Tensor | None
) -> Tensor:
    """(B,): the norms of the stored kernel's gradients, from rows of the standardised kernel's gradients g.

    The mean and the direction r that standardisation leaves out are orthogonal, so for each output the square
    is scale^2 (|g|^2 - fan_in mean(g)^2 - <r, g>^2). Neither needs g: fan_in mean(g) is the sum over places
    of b times the sum of the inputs the kernel sees there, <r, g> the sum of b times the output.
    """
    count, groups = len(x), layer.groups
    if y is None or layer.bias is not None:
        with torch.no_grad():
            y = F.conv2d(x, made.kernel, None, pair(layer.stride), 0, pair(layer.dilation), groups)
    along = (b * y).sum(dim=(2, 3)).mul_(made.free.flatten())
    seen = x.reshape(count, groups, -1, *x.shape[2:]).sum(dim=2)
    ones = x.new_ones(groups, 1, *layer.kernel_size)
    seen = F.conv2d(seen, ones, None, pair(layer.stride), 0, pair(layer.dilation), groups)
    means = torch.bmm(b.reshape(count * groups, -1, seen[0, 0].numel()), seen.view(count * groups, -1, 1))
    means = means.view(count, -1).mul_(layer.weight[0].numel() ** -0.5)
    whole = torch.linalg.vector_norm(torch.linalg.vector_norm(rows, dim=3), dim=0).flatten(1).square_()
    scale = made.scale.flatten().square()
    squares: Tensor = (whole - means.square_() - along.square_()) @ scale
    # Where almost all of a gradient is left out the difference is rounding: leave it out of the gradient.
    doubtful = (squares < TRUSTED * (whole @ scale)).nonzero().flatten()
    norms = squares.sqrt()
    for row in doubtful.tolist():
        norms[row] = torch.linalg.vector_norm(made.pull_back(arranged(rows[:, [row]], layer.weight.shape)))
    return norms


def kernel_rows(layer: nn.Conv2d, x: Tensor, b: Tensor, arena: Arena) -> Tensor:
    """(kernel height, B, groups, inputs * kernel width, outputs): every example's kernel gradient.

    Inputs and outputs are those of one group. The entry of kernel row i, example n, input c, column j and
    output o is the sum over places p of b[n, o, p] times the padded x[n, c] at stride p + dilation (i, j).
    """
    outputs, inputs, height, width = layer.weight.shape
    rows = arena.empty((height, len(x), layer.groups, inputs * width, outputs // layer.groups), x)
    unrolled = x[0].numel() // x.shape[3] * width * b.shape[3]
    size = max(1, AT_ONCE // unrolled)
    for start in range(0, len(x), size):
        chunk = slice(start, start + size)
        _fill(rows[:, chunk], layer, x[chunk], b[chunk])
    return rows


def _fill(rows: Tensor, layer: nn.Conv2d, x: Tensor, b: Tensor) -> None:
    high, wide = b.shape[2:]
    b = b.reshape(len(x) * layer.groups, -1, high * wide).transpose(1, 2)
    stride, dilation = layer.stride[0], layer.dilation[0]
    columns: dict[int, Tensor] = {}
    for i, row in enumerate(rows):
        # Kernel row i sees the input rows i * dilation + stride * p: consecutive ones of a phase.
        first, phase = divmod(i * dilation, stride)
        if phase not in columns:
            columns[phase] = unroll_width(layer, x[:, :, phase::stride], wide)
        run = columns[phase][:, :, first * wide : (first + high) * wide]
        # With b on the right the product is quicker than the other way round.
        torch.bmm(run, b, out=row.flatten(0, 1))


def unroll_width(layer: nn.Conv2d, x: Tensor, places: int) -> Tensor:
    """(B * groups, inputs per group * kernel width, height * places): x at stride * place + dilation * j."""
    count, inputs, height, _ = x.shape
    of_example, of_channel, of_row, of_column = x.stride()
    width, stride, dilation = layer.kernel_size[1], layer.stride[1], layer.dilation[1]
    view = x.as_strided(
        (count, inputs, width, height, places),
        (of_example, of_channel, of_column * dilation, of_row, of_column * stride),
        x.storage_offset(),
    )
    return view.reshape(count * layer.groups, inputs // layer.groups * width, height * places)


def padded(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The input with the layer's padding around it."""
    widths = layer._reversed_padding_repeated_twice
    if not any(widths):
        return x
    return F.pad(x, widths, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def arranged(rows: Tensor, shape: torch.Size) -> Tensor:
    """(height, B, groups, ...) rows to (B, *shape of the kernel), in memory of their own."""
    height, count, groups = rows.shape[:3]
    parts = rows.view(height, count, groups, shape[1], shape[3], -1)
    ordered = parts.permute(1, 2, 5, 3, 0, 4).clone(memory_format=torch.contiguous_format)
    return ordered.view(count, *shape)


def pair(values: tuple[int, ...]) -> tuple[int, int]:
    """Height and width."""
    return values[0], values[1]
