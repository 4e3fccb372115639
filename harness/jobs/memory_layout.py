"""One memory layout of images for every method: channels last on a CPU, if the model supports it.

On a CPU, convolutions are faster with channels last, for plain and per-example gradients alike. Step times of
two methods are comparable only with the same layout, so it is decided here, by model and kind of device and
never by timing. On other devices it has not been measured: there, and in evaluation and attacks, it is
torch's default.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import nn

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
