"""One memory layout of images for every method: channels last on a CPU, if the model supports it.

On a CPU, convolutions are faster with channels last, for plain and per-example gradients alike. Step times of
two methods are comparable only with the same layout, so it is decided here, by model and kind of device and
never by timing. On other devices it has not been measured: there, and in evaluation and attacks, it is
torch's default, but for the max pools of an evaluation, which are exact in any.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from methods.base import Problem
from workloads.base import Records, channels_last

ANY_LAYOUT = ("torch.nn.", "workloads.models.", "harness.plan.canaries")
"""Packages whose modules are independent of the layout; those of others may read raw memory."""


def apply_layout(members: Records, problem: Problem) -> tuple[Records, Problem]:
    """Members and problem in the layout of trainings."""
    if members.y.device.type != "cpu" or not takes_channels_last(problem.model(0)):
        return members, problem
    public = None if problem.public is None else channels_last(problem.public)
    laid_out = replace(problem, model=partial(lay_out_model, problem.model), public=public)
    return members.channels_last(), laid_out


def takes_channels_last(model: nn.Module) -> bool:
    """Whether this model is trained with channels last."""
    modules = list(model.modules())
    return any(isinstance(module, nn.Conv2d) for module in modules) and all(
        type(module).__module__.startswith(ANY_LAYOUT) for module in modules
    )


def lay_out_model(make: Callable[[int], nn.Module], seed: int) -> nn.Module:
    """A fresh model whose convolution weights are channels last; their values are the same."""
    model = make(seed)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = channels_last(module.weight.data)
    return model


def restore_layout(model: nn.Module) -> nn.Module:
    """Restore torch's default layout of convolution weights, as loaded weights have it."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            # A copy makes the layout explicit even for a single channel, where both are the same.
            module.weight.data = module.weight.data.clone(memory_format=torch.contiguous_format)
    return model


@contextmanager
def quick_pools(model: nn.Module) -> Iterator[None]:
    """Let max pools of images in torch's default layout compute with channels last, on a CPU.

    The bits are the same, since a maximum is exact, and it is several times as fast: pools take most of the
    evaluation of a small network.
    """
    pools = [module for module in model.modules() if type(module) is nn.MaxPool2d]
    hooks = [hook for pool in pools if not pool.return_indices for hook in _Turn().hook(pool)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Turn:
    """Turns what goes into a pool, and what it was given back."""

    def __init__(self) -> None:
        self.turned = False

    def hook(self, pool: nn.Module) -> tuple[RemovableHandle, RemovableHandle]:
        return pool.register_forward_pre_hook(self.before), pool.register_forward_hook(self.after)

    def before(self, pool: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self.turned = all(x.dim() == 4 and x.device.type == "cpu" and x.is_contiguous() for x in given)
        return tuple(map(channels_last, given)) if self.turned else given

    def after(self, pool: nn.Module, given: tuple[Tensor, ...], pooled: Tensor) -> Tensor:
        return pooled.contiguous() if self.turned else pooled
