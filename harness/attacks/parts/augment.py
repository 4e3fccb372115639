"""Views of an image: mirrored and shifted, as in training with augmentation."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, product

import torch
from torch import Tensor
from torch.nn.functional import pad

from workloads.base import Records
from workloads.errors import BenchError

SHIFT = 4
"""The shift of LiRA's views in pixels, as far as the usual random crops shift a 32 x 32 image."""
CHANNELS = (1, 3)
"""Grey and colour: feature maps have more channels, and cannot be mirrored."""


@dataclass(frozen=True)
class View:
    """An image mirrored or not, then shifted by whole pixels, with reflection at the edges."""

    mirrored: bool = False
    down: int = 0
    right: int = 0

    def of(self, x: Tensor) -> Tensor:
        """The view of (b, channels, height, width) images."""
        x = x.flip(3) if self.mirrored else x
        far = max(abs(self.down), abs(self.right))
        if not far:
            return x
        height, width = x.shape[2:]
        top, left = far - self.down, far - self.right
        return pad(x, (far, far, far, far), mode="reflect")[..., top : top + height, left : left + width]


def lira_views(queries: int) -> list[View]:
    """The first of LiRA's 18 queries: the image, its mirror image, and both shifted in eight directions."""
    moves = sorted(product((-SHIFT, 0, SHIFT), repeat=2), key=lambda move: abs(move[0]) + abs(move[1]))
    return [View(mirrored, *move) for move in moves for mirrored in (False, True)][:queries]


def near_views(queries: int) -> list[View]:
    """The image, its mirror image, and the image shifted by one pixel, then by two, and so on.

    The shifts with |down| + |right| = d are the 4 d of Choquette-Choo et al. 2021.
    """
    return [View(), View(mirrored=True), *islice(_moves(), max(queries - 2, 0))][:queries]


def _moves() -> Iterator[View]:
    for far in count(1):
        for down in range(-far, far + 1):
            for right in sorted({far - abs(down), abs(down) - far}):
                yield View(down=down, right=right)


def check_images(records: Records, attack: str, views: list[View]) -> None:
    """BenchError if records are not images, or too small for the shifts."""
    shape = tuple(records.take(torch.arange(1)).x.shape[1:])
    if len(shape) != 3 or shape[0] not in CHANNELS:
        raise BenchError(
            f"{attack} needs mirrored and shifted images, but a record of this workload has shape {shape}: "
            "take a workload on images of shape (1 or 3, height, width)",
            field="shape",
            value=shape,
        )
    far = max(max(abs(view.down), abs(view.right)) for view in views)
    if far >= min(shape[1:]):
        raise BenchError(
            f"{attack} shifts images by up to {far} pixels, but these have {shape[1]} x {shape[2]}: "
            "give fewer queries",
            field="shift",
            value=far,
            allowed=min(shape[1:]) - 1,
        )
