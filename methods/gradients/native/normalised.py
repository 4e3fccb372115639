"""Contributions of group normalisations of images."""

import ctypes
from typing import TypeGuard

import torch
from torch import nn

from methods.gradients.contributions import Call, Stored
from methods.gradients.native import library
from methods.gradients.native.convolved import last
from methods.gradients.rules import trains


def is_ours(module: nn.Module) -> TypeGuard[nn.GroupNorm]:
    """Whether a layer is a group normalisation that the library computes."""
    return type(module) is nn.GroupNorm and library.computes(module.weight)


def normalise(module: nn.GroupNorm, call: Call) -> Stored:
    """The gradients of its scale and shift for images (B, channels, height, width)."""
    a, b = last(call.a), last(call.b)
    count, channels, height, width = a.shape
    scale, shift = a.new_empty(count, channels), a.new_empty(count, channels)
    totals, sums = torch.empty(4 * channels, dtype=torch.float64), a.new_empty(4 * channels)
    library.load(a.dtype).group_norm(
        library.pointer(a),
        library.pointer(b),
        *map(ctypes.c_long, (count, height * width, channels, module.num_groups)),
        ctypes.c_double(module.eps),
        *map(library.pointer, (totals, sums, scale, shift)),
    )
    return Stored([each for each, trained in zip((scale, shift), trains(call.layer), strict=True) if trained])
