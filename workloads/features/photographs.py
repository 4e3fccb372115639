"""Typical scattering maps of colour images, measured on two public photographs instead of the data.

The photographs come with scikit-learn: china.jpg and flower.jpg, CC BY. Resized crops of them represent
photographs in general; no record is among them, so normalising with them costs no privacy.
"""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workloads.features.pixels import Scale
from workloads.features.scattering import scattering

SHRUNK = (4, 8)
"""Factors: at these sizes a crop shows about as much of a scene as a small photograph does."""
STRIDE = 8
"""Pixels from one crop to the next."""
FLOOR = 1e-4
"""Added to every variance, about that of the median map: most maps of second order hardly vary, and scaled up
to the size of the others they are mostly noise to private training. Of 0, 1e-4, 1e-3 and 1e-2 the best for
dp-sgd on CIFAR-10; the noise on the statistics of Tramer and Boneh 2021 is as large, to the same effect."""


@cache
def typical_maps(side: int, scale: Scale) -> tuple[Tensor, Tensor]:
    """Mean and deviation of every map of colour images, floored, each (3 x 81, 1, 1)."""
    planes = scale(crops(side)).flatten(0, 1)
    with torch.inference_mode():
        maps = torch.cat([scattering(side)(part) for part in torch.split(planes, 24)])
    spread = maps.view(-1, 3 * maps.shape[1], maps[0, 0].numel()).transpose(1, 2).flatten(0, 1)
    deviation = (spread.var(dim=0) + FLOOR).sqrt()
    return spread.mean(dim=0).view(-1, 1, 1), deviation.view(-1, 1, 1)


def crops(side: int) -> NDArray[np.uint8]:
    """Squares of the photographs, uint8 (n, 3, side, side)."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    found = []
    for photograph in load_sample_images().images:
        height, width, _ = photograph.shape
        for times in SHRUNK:
            image = Image.fromarray(photograph)
            small = np.asarray(image.resize((width // times, height // times), Image.Resampling.BOX))
            found += [
                small[down : down + side, right : right + side].transpose(2, 0, 1)
                for down in range(0, small.shape[0] - side + 1, STRIDE)
                for right in range(0, small.shape[1] - side + 1, STRIDE)
            ]
    return np.stack(found)
