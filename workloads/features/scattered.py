"""The scattering transform as an encoder of images."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import group_norm

from workloads.data.array_cache import Arrays
from workloads.features.bank import Bank, Encode, Features, Inputs
from workloads.features.photographs import typical_maps
from workloads.features.pixels import GREY, IMAGENET, Scale
from workloads.features.scattering import CHANNELS, STRIDE, scattering

Norm = Literal["gn27", "photographs"]
"""The normalisation: in 27 groups of the image's own maps, as Tramer and Boneh 2021 do for Fashion-MNIST; or
every map by statistics of public photographs, where they use private statistics of the data."""
GROUPS = 27
VERSIONS: dict[Norm, int] = {"gn27": 1, "photographs": 2}
"""Raised when the same images give other features."""
PLANES = 24
"""Images transformed together: their spectra fit the processor's cache, twice as many do not."""
CHUNK = 240
"""Images per thread at a time."""


@dataclass(frozen=True)
class Scattered:
    """Scattering features (81 x planes, side / 4, side / 4); float16 rounds them to 5e-4."""

    scale: Scale
    norm: Norm
    about: str = "scattering features, two scales and eight angles (Bruna and Mallat 2013)"

    @property
    def version(self) -> str:
        """Our version, and the constants of both normalisations."""
        offsets = "-".join(f"{number:g}" for number in (*self.scale.mean, *self.scale.deviation))
        return f"{VERSIONS[self.norm]}-{self.norm}-{offsets}"

    def missing(self) -> str | None:
        """None: the transform needs no other package."""
        return None

    def inputs(self, arrays: Arrays, split: str) -> Inputs:
        """Square images."""
        return arrays[f"{split}_x"]

    def open(self) -> Encode:
        """The transform."""
        return partial(transform, scale=self.scale, norm=self.norm)


def transform(images: NDArray[Any], scale: Scale, norm: Norm) -> Features:
    """The normalised features of uint8 images (n, planes, side, side), on all of torch's threads."""
    count, planes, side, _ = images.shape
    features = np.empty((count, planes * CHANNELS, side // STRIDE, side // STRIDE), np.float16)
    batch = PLANES // planes

    def fill(begin: int) -> None:
        # Inference mode is per thread.
        with torch.inference_mode():
            for start in range(begin, min(begin + CHUNK, count), batch):
                part = images[start : min(start + batch, begin + CHUNK)]
                found = scattering(side)(scale(part).flatten(0, 1)).view(len(part), *features.shape[1:])
                features[start : start + len(part)] = normalised(found, scale, norm).numpy()

    threads = torch.get_num_threads()
    # Whole batches in parallel: the maps are too small to split one among threads.
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            list(workers.map(fill, range(0, count, CHUNK)))
    finally:
        torch.set_num_threads(threads)
    return features


def normalised(maps: Tensor, scale: Scale, norm: Norm) -> Tensor:
    """Maps (B, channels, height, width) in a range that a linear layer learns from."""
    if norm == "gn27":
        return group_norm(maps, GROUPS)
    mean, deviation = typical_maps(maps.shape[-1] * STRIDE, scale)
    return (maps - mean) / deviation


banks = [
    Bank("mnist-scattering", "mnist", Scattered(GREY, "gn27")),
    Bank("fmnist-scattering", "fashion-mnist", Scattered(GREY, "gn27")),
    Bank("cifar10-scattering", "cifar-10", Scattered(IMAGENET, "photographs")),
]
