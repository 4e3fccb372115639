"""One layout of images in memory for every method: channels last on a CPU, where the model takes it.

There convolutions are quicker on images whose channels lie side by side, those of plain gradients as well as
those of per-example ones. A ratio of two step times tells of the methods only where both computed alike, so
the layout of a training is decided here, by model and kind of device and never by timing, and methods take
what they are given. On other devices nobody has measured it: there it is torch's default, as it is in
evaluation and attacks.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from methods.base import Problem
from workloads.base import Records, channels_last

ANY_LAYOUT = ("torch.nn.", "workloads.models.", "harness.plan.canaries")
"""Where modules are defined that compute the same in any layout; somebody else's may read memory as it is."""


def apply_layout(members: Records, problem: Problem) -> tuple[Records, Problem]:
    """Members and problem as a method is given them."""
    if members.y.device.type != "cpu" or not takes_channels_last(problem.model(0)):
        return members, problem
    public = None if problem.public is None else channels_last(problem.public)
    laid_out = replace(problem, model=partial(lay_out_model, problem.model), public=public)
    return members.channels_last(), laid_out


def takes_channels_last(model: nn.Module) -> bool:
    """Whether a training of this model has images and weights channels last."""
    modules = list(model.modules())
    return any(isinstance(module, nn.Conv2d) for module in modules) and all(
        type(module).__module__.startswith(ANY_LAYOUT) for module in modules
    )


def lay_out_model(make: Callable[[int], nn.Module], seed: int) -> nn.Module:
    """A fresh model with the weights of its convolutions channels last; the numbers are the same."""
    model = make(seed)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = channels_last(module.weight.data)
    return model


def restore_layout(model: nn.Module) -> nn.Module:
    """The model with the weights of its convolutions in torch's default layout, as saved weights are read."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            # A copy says which layout is meant, also of a single channel, where both look alike.
            module.weight.data = module.weight.data.clone(memory_format=torch.contiguous_format)
    return model
