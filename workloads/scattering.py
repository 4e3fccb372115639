"""Images as scattering features, and small heads trained on them (Handcrafted-DP, DPSUR)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import nn

from workloads.base import Records
from workloads.data.places import data_root
from workloads.features.pixels import GREY, IMAGENET, Scale
from workloads.features.scattered import Norm, kept, scattered
from workloads.models.scatter import Side, scatter_cnn, scatter_linear
from workloads.published import OnPublishedData, Splits, published


@dataclass(frozen=True)
class Scattered(OnPublishedData):
    """A head on features in float16, made from pool and test images at first use and kept on disk."""

    scale: Scale = GREY
    norm: Norm = "gn27"

    def unprepared(self) -> str | None:
        """Why the records are not at hand at once; None where the features are kept already."""
        if kept(published(self.dataset), self.scale, self.norm):
            return None
        return (
            f"the scattering features of {self.dataset} are not made yet: they are at first use, in minutes"
        )

    def splits(self) -> Splits:
        """Pool and test, mapped once per process."""
        return records(self.dataset, self.scale, self.norm, data_root())


@lru_cache(maxsize=2)
def records(dataset: str, scale: Scale, norm: Norm, root: Path) -> Splits:
    """Pool and test features of a data set below a data root."""
    arrays = scattered(published(dataset), scale, norm)
    pool, test = (
        Records(torch.from_numpy(arrays[f"{split}_x"]), torch.from_numpy(arrays[f"{split}_y"]))
        for split in ("train", "test")
    )
    return pool, test


def pair(prefix: str, dataset: str, n_train: int, side: Side, scale: Scale, norm: Norm) -> list[Scattered]:
    """Both heads on one data set."""
    heads: dict[str, tuple[str, Callable[[int], nn.Module]]] = {
        "linear": ("one linear layer on scattering features", partial(scatter_linear, side=side)),
        "cnn": ("CNN with tanh on scattering features", partial(scatter_cnn, side=side)),
    }
    return [
        Scattered(f"{prefix}-scatter-{kind}", network, dataset, 10, n_train, build, scale=scale, norm=norm)
        for kind, (network, build) in heads.items()
    ]


workloads = [
    *pair("mnist", "mnist", 50_000, 28, GREY, "gn27"),
    *pair("fmnist", "fashion-mnist", 50_000, 28, GREY, "gn27"),
    *pair("cifar10", "cifar-10", 45_000, 32, IMAGENET, "photographs"),
]
