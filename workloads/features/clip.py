"""OpenCLIP's ViT-B-16 as an encoder of images; needs its package and its weights."""

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from workloads.data.array_cache import Arrays
from workloads.errors import BenchError
from workloads.features.bank import Bank, Encode, Features, Inputs
from workloads.features.frozen import lacking, through

MODEL, WEIGHTS = "ViT-B-16", "laion2b_s34b_b88k"
"""open_clip's names of the network and its training data."""
VERSION = 1
"""Raised when the same images give other features."""
BATCH = 64
"""Images at a time."""


@dataclass(frozen=True)
class ClipImages:
    """768 features: the output of the image tower before its projection to the 512 shared with text.

    PD-SGD's heads have 7,680 weights for 10 classes, so they use these.
    """

    about: str = (
        "768 features by OpenCLIP ViT-B-16 before the projection (Cherti et al. 2023; weights trained on "
        "LAION-2B, fetched by package open_clip_torch, MIT)"
    )

    @property
    def version(self) -> str:
        """Our version, and the name of the weights, which open_clip downloads."""
        return f"{VERSION}-{MODEL}-{WEIGHTS}"

    def missing(self) -> str | None:
        """A package that is missing or does not fit the installed torch."""
        if reason := lacking(("open_clip",), "vit"):
            return reason
        try:
            import open_clip  # noqa: F401
        except (ImportError, RuntimeError) as error:  # torchvision for another torch raises either
            return f"open_clip does not import here ({error}): install a torchvision that fits your torch"
        return None

    def inputs(self, arrays: Arrays, split: str) -> Inputs:
        """Images in colour."""
        return arrays[f"{split}_x"]

    def open(self) -> Encode:
        """The image tower without its projection; its weights are downloaded if missing."""
        import open_clip
        from PIL import Image

        try:
            model, _, prepare = open_clip.create_model_and_transforms(MODEL, pretrained=WEIGHTS)
        except (OSError, RuntimeError) as error:
            raise BenchError(
                f"open_clip cannot get the weights {WEIGHTS} of {MODEL}: {error}",
                field="weights",
                value=WEIGHTS,
            ) from error
        model.visual.proj = None

        def pictures(images: NDArray[Any]) -> Tensor:
            return torch.stack([prepare(Image.fromarray(image.transpose(1, 2, 0))) for image in images])

        def encode(images: NDArray[Any]) -> Features:
            starts = range(0, len(images), BATCH)
            return through(model.visual, (pictures(images[at : at + BATCH]) for at in starts))

        return encode


banks = [
    Bank("cifar10-vit", "cifar-10", ClipImages()),
    Bank("cifar100-vit", "cifar-100", ClipImages()),
]
