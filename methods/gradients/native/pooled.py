"""Max pooling of images with channels last."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from methods.gradients.native import library
from methods.gradients.native.convolved import last


def find_pools(model: nn.Module) -> list[nn.MaxPool2d]:
    """The modules of a model that are computed here: windows side by side within the image."""
    return [
        module
        for module in model.modules()
        if type(module) is nn.MaxPool2d
        and "forward" not in vars(module)
        and _pair(module.padding) == (0, 0)
        and _pair(module.dilation) == (1, 1)
        and not (module.ceil_mode or module.return_indices)
    ]


@contextmanager
def pooling(pools: Sequence[nn.MaxPool2d]) -> Iterator[None]:
    """Let these modules pool by our code."""
    try:
        for pool in pools:
            pool.forward = partial(max_pool, pool)  # type: ignore[method-assign]
        yield
    finally:
        for pool in pools:
            vars(pool).pop("forward", None)


def max_pool(module: nn.MaxPool2d, x: Tensor) -> Tensor:
    """The module's output."""
    if not (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and library.computes(x)):
        left: Tensor = nn.MaxPool2d.forward(module, x)
        return left
    pooled: Tensor = MaxPool.apply(x, _pair(module.kernel_size), _pair(module.stride))  # type: ignore[no-untyped-call]
    return pooled


class MaxPool(torch.autograd.Function):
    """The largest values in windows; as in the library, the first of equal ones gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: tuple[int, int], stride: tuple[int, int]) -> Tensor:
        """Of (B, channels, height, width), channels last."""
        count, channels, height, width = x.shape
        high, wide = (
            (size - of) // by + 1 for size, of, by in zip((height, width), window, stride, strict=True)
        )
        ctx.pool = library.Pool(width, channels, high, wide, *window, *stride)
        # The output may be changed in place: backward finds the largest again.
        ctx.save_for_backward(x)
        y = torch.empty((count, channels, high, wide), dtype=x.dtype, memory_format=torch.channels_last)
        library.load(x.dtype).max_pool(
            ctypes.byref(ctx.pool),
            library.pointer(x),
            ctypes.c_long(count),
            ctypes.c_long(height),
            library.pointer(y),
        )
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Of the output to that of the input."""
        (x,) = ctx.saved_tensors
        gradient, onto = last(gradient), torch.empty_like(x)
        scratch = x.new_empty(2 * ctx.pool.wide * ctx.pool.channels)
        library.load(x.dtype).max_pool_backward(
            ctypes.byref(ctx.pool),
            library.pointer(x),
            ctypes.c_long(len(x)),
            ctypes.c_long(x.shape[2]),
            *map(library.pointer, (gradient, scratch, onto)),
        )
        return onto, None, None


def _pair(sizes: int | tuple[int, int]) -> tuple[int, int]:
    return (sizes, sizes) if isinstance(sizes, int) else sizes
