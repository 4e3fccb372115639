"""The pieces of a gradient with their own direction: all of it, every weight, or rows of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from workloads.errors import SpecError

Granularity = Literal["whole", "per_layer", "per_row", "per_last_axis"]
COARSER: Mapping[Granularity, tuple[Granularity, ...]] = {
    "per_last_axis": ("per_row", "per_layer", "whole"),
    "per_row": ("per_layer", "whole"),
    "per_layer": ("whole",),
    "whole": (),
}
Layout = Sequence[tuple[int, int]]
"""(rows, dimension): one pair for all weights together, or one for each weight.

Pair by pair and row by row the coordinates are those of the weights in their order.
"""


def find_layout(weights: Sequence[Tensor], granularity: Granularity) -> Layout:
    """The directions of a model's gradient; SpecError for a piece of one number, which has only a sign.

    A row of a weight belongs to one index of its first axis: an output unit or channel. Along the last axis
    it is one row of a kernel, and of a matrix the same as before. A vector is one row.
    """
    if granularity == "whole":
        layout = [(1, sum(weight.numel() for weight in weights))]
    elif granularity == "per_layer":
        layout = [(1, weight.numel()) for weight in weights]
    else:
        rows = [_rows(weight.shape, granularity) for weight in weights]
        layout = [(count, weight.numel() // count) for count, weight in zip(rows, weights, strict=True)]
    if any(dimension < 2 for _, dimension in layout):
        coarser = COARSER[granularity]
        raise SpecError(
            f"granularity '{granularity}' leaves a piece of one number, which has a sign and no direction; "
            f"use {' or '.join(coarser) or 'a larger model'}",
            field="granularity",
            value=granularity,
            allowed=coarser,
        )
    return layout


def _rows(shape: torch.Size, granularity: Granularity) -> int:
    """The number of directions of one weight."""
    if len(shape) == 1:
        return 1
    return shape[0] if granularity == "per_row" else shape.numel() // shape[-1]


def cut_blocks(gradients: list[Tensor], layout: Layout) -> Iterator[Tensor]:
    """Gradients (B, *shape) of all weights as (B, rows, dimension) for each pair of the layout."""
    if len(layout) < len(gradients):
        gradients = [torch.cat([each.flatten(1) for each in gradients], dim=1)]
    for gradient, (rows, dimension) in zip(gradients, layout, strict=True):
        yield gradient.reshape(len(gradient), rows, dimension)


def as_text(layout: Layout) -> str:
    """The layout as text: COUNTxDIMENSION, small dimensions first, as 1x10,12x75."""
    counts: Counter[int] = Counter()
    for rows, dimension in layout:
        counts[dimension] += rows
    return ",".join(f"{count}x{dimension}" for dimension, count in sorted(counts.items()))


def parse(directions: str) -> list[tuple[int, int]]:
    """The (count, dimension) pairs of a layout written by `as_text`."""
    pairs = [term.split("x") for term in directions.split(",")]
    return [(int(count), int(dimension)) for count, dimension in pairs]
