"""Images scaled for a network, by public constants, never by statistics of the data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset


@dataclass(frozen=True)
class Scale:
    """Mean and deviation by which each colour plane of pixels in [0, 1] is normalised."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, images: NDArray[Any]) -> Tensor:
        """uint8 (n, planes, height, width) to float32 of the same shape."""
        pixels = torch.from_numpy(np.asarray(images, np.float32)).div_(255)
        mean, deviation = (torch.tensor(each).view(-1, 1, 1) for each in (self.mean, self.deviation))
        return pixels.sub_(mean).div_(deviation)


GREY = Scale((0.0,), (1.0,))
MNIST = Scale((0.1307,), (0.3081,))
"""Of MNIST's training images, the usual constants of its examples. They count as public."""
COLOUR = Scale((0.0,) * 3, (1.0,) * 3)
IMAGENET = Scale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Of ImageNet's training images, the usual public constants."""


@dataclass(frozen=True)
class Pixels(Dataset[tuple[Tensor, Tensor]]):
    """Images that stay on disk as bytes and are scaled when read."""

    images: NDArray[Any]
    labels: Tensor
    scale: Scale

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: list[int]) -> list[tuple[Tensor, Tensor]]:
        return list(zip(self.scale(self.images[rows]), self.labels[rows], strict=True))
