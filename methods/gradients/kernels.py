"""Every example's gradient of a convolution's kernel, and what is cheaper where positions are few.

Products of many places are those of the library's own weight gradient: a batch becomes one image with the
channels of all examples, and a grouped convolution's weight gradient is then one for each example.

Elsewhere the input is copied into columns and multiplied. The usual im2col copies it kernel height x kernel
width times. Here only the kernel's width is unrolled, and as many of its rows as the stride skips: with
positions in row order, the input of these kernel rows is one contiguous slice of that copy, which enters the
product directly. With channels last, each position's part of the copy is one contiguous slice of the input.
Kernel rows of few entries are unrolled together, since narrow products are slow.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn
from torch.backends import mkldnn as onednn
from torch.nn import functional as F

from methods.gradients.contributions import Arena, products

# Entries in use at a time: on a CPU small enough for the cache, and for the allocator not to give memory back
# to the system after every call; elsewhere many examples per call.
AT_ONCE = 2**18
AT_ONCE_ELSEWHERE = 2**26
# The library computes this many channels together, whether there are as many or not.
TOGETHER = 16
# With fewer entries of the kernel in a product, one product of all its entries is quicker (measured).
NARROW = 16
# The library's kernel gradients are rearranged, which is felt beyond so many entries for a place (measured).
ENTRIES_PER_PLACE = 7
# What gradients of all examples cost more than their sum, relative to products of columns, by the library and
# by columns; and the multiplications that a pass over an entry takes the time of (measured).
EXCESS_OF_GROUPED, EXCESS_OF_COLUMNS = 0.2, 0.6
PASSES, PASSES_OVER_PAIRS = 20, 60


def kernel_blocks(layer: nn.Conv2d, a: Tensor, b: Tensor, arena: Arena) -> list[Tensor]:
    """Every example's kernel gradient, in blocks (B, groups, outputs, kernel rows * kernel width * inputs).

    Inputs and outputs are those of one group. The entry of kernel row i, example n, input c, column j and
    output o is the sum over places p of b[n, o, p] times the padded a[n, c] at stride p + dilation (i, j).
    """
    outputs, inputs, height, width = layer.weight.shape
    high, wide = b.shape[2:]
    grouped = library_is_quicker(layer, b)
    at_once = height if grouped else rows_at_once(layer)
    blocks = [
        arena.empty((len(a), layer.groups, outputs // layer.groups, rows * width * inputs), a)
        for rows in (min(at_once, height - top) for top in range(0, height, at_once))
    ]
    if grouped:
        _fill_by_library(blocks[0], layer, a, b)
        return blocks
    x = padded(layer, a)
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


def library_is_quicker(layer: nn.Conv2d, b: Tensor) -> bool:
    """Whether a grouped convolution's weight gradient is quicker than products of columns.

    Kernels of one entry are products without a copy; of others few places do not outweigh rearranging. Only
    oneDNN has such convolutions in our layout: torch's own are slow, and those of doubles were wrong.
    """
    if b.device.type != "cpu" or b.dtype != torch.float32 or not onednn.enabled:
        return False
    height, width = layer.kernel_size
    entries, places = layer.weight[0].numel(), b[0, 0].numel()
    return height * width > 1 and entries <= ENTRIES_PER_PLACE * places


def _fill_by_library(block: Tensor, layer: nn.Conv2d, a: Tensor, b: Tensor) -> None:
    a, padding = framed(layer, a)
    outputs, inputs, height, width = layer.weight.shape
    computed = filled(outputs // layer.groups) * filled(inputs) * layer.groups * height * width
    size = max(1, AT_ONCE // (a[0].numel() + b[0].numel() + computed))
    parts = zip(*(torch.split(each, size) for each in (a, b, block)), strict=True)
    for one_a, one_b, one_block in parts:
        count = len(one_a)
        kernels = one_block.view(count * outputs, height, width, inputs).permute(0, 3, 1, 2)
        found = weight_gradient(
            layer, as_one_image(one_a), as_one_image(one_b), kernels, padding, count * layer.groups
        )
        kernels.copy_(found)


def filled(channels: int) -> int:
    """The number of channels that the library computes."""
    return -(-channels // TOGETHER) * TOGETHER


def weight_gradient(
    layer: nn.Conv2d, a: Tensor, b: Tensor, like: Tensor, padding: Sequence[int], groups: int
) -> Tensor:
    """The library's gradient of a weight `like` this one, summed over the batch."""
    stride, dilation = layer.stride, layer.dilation
    outputs = (False, True, False)
    found: Tensor = torch.ops.aten.convolution_backward(
        b, a, like, None, stride, padding, dilation, False, (0, 0), groups, outputs
    )[1]
    return found


def as_one_image(images: Tensor) -> Tensor:
    """(1, B * channels, height, width): the channels of all images, which come last in memory."""
    high, wide = images.shape[2:]
    return images.permute(2, 3, 0, 1).reshape(high, wide, -1).permute(2, 0, 1)[None]


def gram_is_cheaper(layer: nn.Conv2d, a: Tensor, b: Tensor) -> bool:
    """Whether `place_products` and a `summed_gradient` cost less than storing all gradients, on a CPU."""
    if layer.groups > 1:
        return False
    outputs, entries, places = len(layer.weight), layer.weight[0].numel(), b[0, 0].numel()
    left, right, top, bottom = layer._reversed_padding_repeated_twice
    pixels = (a.shape[2] + top + bottom) * (a.shape[3] + left + right)
    excess = EXCESS_OF_GROUPED if library_is_quicker(layer, b) else EXCESS_OF_COLUMNS
    products = pixels**2 * (a.shape[1] + PASSES_OVER_PAIRS) + places**2 * (outputs + PASSES)
    return products < (excess * places + PASSES) * entries * outputs


def summed_gradient(layer: nn.Conv2d, a: Tensor, b: Tensor) -> Tensor:
    """The kernel's gradient, summed over the batch."""
    a, padding = framed(layer, a)
    return weight_gradient(layer, a, b, layer.weight.detach(), padding, layer.groups)


def place_products(layer: nn.Conv2d, a: Tensor, high: int, wide: int) -> Tensor:
    """(B, places, places): inner products of the inputs that the kernel sees at two places.

    They are sums over the kernel's entries of the products of two pixels, which are computed once: with all
    pixels in a row, the pairs that the next entry adds lie at a fixed distance.
    """
    x = padded(layer, a).permute(0, 2, 3, 1)
    count, _, columns, _ = x.shape
    x = x.flatten(1, 2)
    pixels = x.shape[1]
    pairs = products(x).flatten(1)
    (down, right), dilation = layer.kernel_size, pair(layer.dilation)
    for entries, step in ((right, dilation[1]), (down, dilation[0] * columns)):
        distance = step * (pixels + 1)
        length = pairs.shape[1] - (entries - 1) * distance
        parts = [pairs[:, distance * n :][:, :length] for n in range(entries)]
        pairs = reduce(Tensor.add_, parts[2:], parts[0] + parts[1]) if entries > 1 else parts[0]
    stride = pair(layer.stride)
    next_row, next_column = stride[0] * columns, stride[1]
    strides = (pairs.stride(0), next_row * pixels, next_column * pixels, next_row, next_column)
    return pairs.as_strided((count, high, wide, high, wide), strides).reshape(count, high * wide, -1)


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


def framed(layer: nn.Conv2d, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The input and the zeros that the library puts around it; any other padding is part of the input."""
    if layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
        return x, pair(layer.padding)
    return padded(layer, x), (0, 0)


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
