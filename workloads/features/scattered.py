"""Scattering features of a data set's images, made once and kept on disk."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import group_norm

from workloads.data.cache import Arrays, cached
from workloads.data.dataset import Published
from workloads.data.places import cache_root
from workloads.features.photographs import usual_maps
from workloads.features.pixels import Scale
from workloads.features.scattering import CHANNELS, STRIDE, scattering

log = logging.getLogger(__name__)

KIND = "scattering"
Norm = Literal["gn27", "photographs"]
"""Of the features: in 27 groups of the image's own maps, as Tramer and Boneh 2021 do for Fashion-MNIST; or
every map by what is usual in public photographs, where they take private statistics of the data."""
GROUPS = 27
VERSION = 1
"""Raised when the same images give other features."""
PLANES = 24
"""Transformed together: their spectra fit the processor's cache, which twice as many do not."""
CHUNK = 1200
"""Images between two looks at the clock."""
PATIENCE = 10.0
"""Seconds between two lines of progress."""


def scattered(dataset: Published, scale: Scale, norm: Norm) -> Arrays:
    """train_x and test_x: float16 (n, 81 x planes, side / 4, side / 4); train_y and test_y.

    The features of an image depend on that image and public constants alone, so they cost no privacy: they
    are never normalised with statistics of the data. float16 rounds them to 5e-4.
    """
    arrays = dataset.load()
    features = cached(
        f"{dataset.name}-{KIND}",
        key(dataset, scale, norm),
        lambda: {
            f"{split}_x": transform(arrays[f"{split}_x"], scale, norm, f"{dataset.name} {split}")
            for split in ("train", "test")
        },
    )
    return features | {f"{split}_y": arrays[f"{split}_y"] for split in ("train", "test")}


def kept(dataset: Published, scale: Scale, norm: Norm) -> bool:
    """Whether the features are on disk already."""
    return (cache_root() / f"{dataset.name}-{KIND}-{key(dataset, scale, norm)}.safetensors").is_file()


def key(dataset: Published, scale: Scale, norm: Norm) -> str:
    """What the features depend on. The images stand in it by their hash, so it must be a known one."""
    if dataset.sha256 is None:
        raise ValueError(
            f"{dataset.name} has no recorded content; its features could be those of other images"
        )
    offsets = "-".join(f"{number:g}" for number in (*scale.mean, *scale.deviation))
    return f"{dataset.sha256[:12]}-{VERSION}-{norm}-{offsets}"


def transform(images: NDArray[Any], scale: Scale, norm: Norm, name: str) -> NDArray[np.float16]:
    """The normalised features of uint8 images (n, planes, side, side), on all of torch's threads."""
    count, planes, side, _ = images.shape
    features = np.empty((count, planes * CHANNELS, side // STRIDE, side // STRIDE), np.float16)
    progress = Progress(f"scattering features of {name}", count)
    batch = PLANES // planes

    def fill(begin: int) -> None:
        # Inference mode is of a thread, not of the process.
        with torch.inference_mode():
            for start in range(begin, min(begin + CHUNK, count), batch):
                part = images[start : min(start + batch, begin + CHUNK)]
                found = scattering(side)(scale(part).flatten(0, 1)).view(len(part), *features.shape[1:])
                features[start : start + len(part)] = normalised(found, scale, norm).numpy()

    threads = torch.get_num_threads()
    # Whole batches in parallel: the maps are too small to share one among threads.
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            for done, _ in enumerate(workers.map(fill, range(0, count, CHUNK)), start=1):
                progress.tell(min(done * CHUNK, count))
    finally:
        torch.set_num_threads(threads)
    return features


def normalised(maps: Tensor, scale: Scale, norm: Norm) -> Tensor:
    """Maps (B, channels, height, width) in a range that a linear layer learns from."""
    if norm == "gn27":
        return group_norm(maps, GROUPS)
    mean, deviation = usual_maps(maps.shape[-1] * STRIDE, scale)
    return (maps - mean) / deviation


@dataclass
class Progress:
    """A line in the log now and then while something long is made."""

    what: str
    total: int

    def __post_init__(self) -> None:
        self._began = self._told = time.monotonic()

    def tell(self, done: int) -> None:
        """Say how far it is, at the end or when the last line is long ago."""
        now = time.monotonic()
        if done < self.total and now - self._told < PATIENCE:
            return
        self._told, taken = now, now - self._began
        left = taken / done * (self.total - done)
        log.info("%s: %d of %d in %.0f s, about %.0f s left", self.what, done, self.total, taken, left)
