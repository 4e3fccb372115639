"""Augmentation multiplicity: random views of an image, whose gradients are averaged before clipping."""

from collections.abc import Callable
from functools import partial

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from methods.base import Count, Params
from methods.gradients.base import Clipping, Loss
from methods.gradients.contributions import Stored
from methods.gradients.opacus import OpacusEngine
from workloads.base import Records
from workloads.errors import SpecError

STORED = 2**28
"""Maximum bytes of gradients at a time, if no physical batch size is given."""
COLOUR_PLANES = (1, 3)


class AugmentationParams(Params):
    """How many views of an image, and which."""

    augmentations: Count = Field(
        default=1,
        description="Random views of every image, their gradients averaged before clipping; 1: the image.",
    )
    augmentation_shift: Count = Field(
        default=4, description="A view is shifted by up to this many pixels; borders are reflected."
    )
    augmentation_flip: bool = Field(
        default=True, description="Mirror a view left to right with probability 1/2."
    )


class ManyViewsEngine(OpacusEngine):
    """Gradients of the mean loss over random views of each example (De et al. 2022).

    The views of an example are clipped together, as one gradient, so epsilon is that of one view. Gradients
    of all views are stored.

    Args:
        model: The model.
        loss: Logits and labels to one loss per example.
        clipping: As for every engine.
        physical_batch_size: Examples at a time, each with all its views; None: as many as fit.
        copies: Views per example.
        views: Maps examples to `copies` views of each, grouped by example.
    """

    name = "opacus"

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clipping: Clipping,
        physical_batch_size: int | None,
        copies: int,
        views: Callable[[Tensor], Tensor],
    ) -> None:
        size = copies * sum(weight.numel() * weight.element_size() for weight in model.parameters())
        physical = physical_batch_size or max(1, STORED // size)
        super().__init__(model, loss, clipping, physical, why=f"{copies} views of an example")
        self.copies, self.views = copies, views

    def _gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Stored]]:
        losses, layers = super()._gradients(self.views(x), y.repeat_interleave(self.copies, dim=0))
        means = [Stored([self._mean(gradient) for gradient in layer.gradients]) for layer in layers]
        return self._mean(losses), means

    def _mean(self, values: Tensor) -> Tensor:
        """The mean over the views of each example: (B x views, ...) to (B, ...)."""
        return values.view(-1, self.copies, *values.shape[1:]).mean(dim=1)


def views_engine(
    model: nn.Module,
    loss: Loss,
    members: Records,
    params: AugmentationParams,
    clipping: Clipping,
    physical_batch_size: int | None,
    generator: torch.Generator,
) -> ManyViewsEngine:
    """The engine that averages over random views; SpecError if the members are not images."""
    first = members.take(torch.zeros(1, dtype=torch.int64, device=generator.device))
    refuse_non_images(first.x, params.augmentation_shift)
    views = partial(
        random_views,
        copies=params.augmentations,
        shift=params.augmentation_shift,
        flip=params.augmentation_flip,
        generator=generator,
    )
    return ManyViewsEngine(model, loss, clipping, physical_batch_size, params.augmentations, views)


def random_views(x: Tensor, copies: int, shift: int, flip: bool, generator: torch.Generator) -> Tensor:
    """(B x copies, planes, height, width): each image `copies` times, shifted and mirrored at random."""
    _, planes, height, width = x.shape
    many = x.repeat_interleave(copies, dim=0)
    count, device = len(many), generator.device
    corners = torch.randint(2 * shift + 1, (2, count), generator=generator, device=device).to(x.device)
    mirrored = torch.rand(count, generator=generator, device=device).to(x.device) < 0.5
    rows = corners[0, :, None] + torch.arange(height, device=x.device)
    columns = corners[1, :, None] + torch.arange(width, device=x.device)
    if flip:
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(count, device=x.device)[:, None, None, None]
    plane = torch.arange(planes, device=x.device)[None, :, None, None]
    padded = pad(many, (shift,) * 4, mode="reflect")
    return padded[image, plane, rows[:, None, :, None], columns[:, None, None, :]]


def refuse_non_images(example: Tensor, shift: int) -> None:
    """SpecError for records (1, ...) that cannot be shifted and mirrored."""
    if example.dim() != 4 or example.shape[1] not in COLOUR_PLANES or not example.is_floating_point():
        raise SpecError(
            f"augmentations need images, records of shape (1 or 3, height, width); got records of shape "
            f"{tuple(example.shape[1:])} and type {example.dtype}: set augmentations = 1",
            field="augmentations",
            value=(tuple(example.shape[1:]), example.dtype),
            allowed=1,
        )
    if shift >= min(example.shape[2:]):
        raise SpecError(
            f"augmentation_shift = {shift} does not fit images of {example.shape[2]} x {example.shape[3]} "
            f"pixels; give 1 to {min(example.shape[2:]) - 1}",
            field="augmentation_shift",
            value=shift,
            allowed=(1, min(example.shape[2:]) - 1),
        )
