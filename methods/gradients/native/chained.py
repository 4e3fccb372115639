"""Clipped sums of short chains of linear layers, by one call."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from methods.gradients.base import GUARD
from methods.gradients.chain import ACTIVATIONS, Activation, Chain
from methods.gradients.native import library

# Entries of a weight: in the products of larger ones the library is quicker (measured).
ENTRIES = 2**16
CODES: dict[Activation | None, int] = {
    None: 0,
    ACTIVATIONS[nn.ReLU]: 1,
    ACTIVATIONS[nn.Tanh]: 2,
    ACTIVATIONS[nn.Sigmoid]: 3,
}
"""As in kernels.c."""


def is_short(chain: Chain) -> bool:
    """Whether our products are quicker, by the model alone."""
    return all(link.weight.numel() <= ENTRIES and library.computes(link.weight) for link in chain.links)


def clip_chain(
    chain: Chain,
    inputs: Sequence[Tensor],
    gradient: Tensor,
    clip: float,
    share: float,
    onto: list[list[Tensor]],
) -> Tensor | None:
    """Add the clipped sums to `onto`; the norms (B,), or None if not all are finite: then nothing is added.

    Args:
        chain: The chain.
        inputs: (B, inputs) of every link.
        gradient: (B, outputs): of the losses by the chain's output.
        clip: As in Engine.clipped_sum.
        share: As in Engine.clipped_sum.
        onto: The sums of every trained layer.
    """
    count, links = gradient.shape[0], chain.links
    inputs = [each.contiguous() for each in inputs]
    gradient = gradient.clone(memory_format=torch.contiguous_format)
    owned, given = iter(onto), []
    size, before = 0, None
    for link, a in zip(links, inputs, strict=True):
        weight, bias = link.trains
        own = next(owned) if weight or bias else []
        outputs, width = link.weight.shape
        given.append(
            library.Link(
                a.data_ptr(),
                link.weight.data_ptr(),
                width,
                outputs,
                CODES[before],
                own[0].data_ptr() if weight else None,
                own[-1].data_ptr() if bias else None,
            )
        )
        # Its input padded, the gradient of it, and a weight and sums padded.
        size += 2 * (count + outputs) * library.padded(width, gradient)
        before = link.activation
    scratch, norms = gradient.new_empty(size), gradient.new_empty(count)
    squares = torch.empty(count, dtype=torch.float64)
    bad = library.load(gradient.dtype).chain(
        (library.Link * len(given))(*given),
        ctypes.c_long(len(given)),
        ctypes.c_long(count),
        library.pointer(gradient),
        ctypes.c_double(clip),
        ctypes.c_double(share),
        ctypes.c_double(GUARD),
        library.pointer(scratch),
        library.pointer(norms),
        library.pointer(squares),
        (ctypes.c_void_p * len(given))(),
    )
    return None if bad else norms
