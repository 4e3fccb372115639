"""Frozen features of images and texts, and small heads trained on them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from workloads import features
from workloads.base import Records
from workloads.data.places import cache_root, data_root
from workloads.models.head import linear_head
from workloads.models.scatter import Side, scatter_cnn, scatter_linear
from workloads.published import OnPublishedData, Splits
from workloads.text import unseen_reviews


@dataclass(frozen=True)
class Head(OnPublishedData):
    """A head on the features of a bank, in float16. The pool is the publisher's training split.

    Features are computed at first use and cached; `privbench data features` computes them ahead of time.
    """

    bank: str = ""
    fresh: Callable[[], NDArray[np.bool_]] | None = None
    """Which test records are not in the pool as well, for data sets with duplicates."""

    @property
    def source(self) -> str:
        """Citations and licences of the data and the features."""
        return f"{super().source}; features: {features.family.get(self.bank).encoder.about}"

    def missing(self) -> str | None:
        """Why the features are missing and cannot be computed; else None."""
        return features.family.get(self.bank).missing()

    def unprepared(self) -> str | None:
        """Why the records are not available at once; None if the features are cached."""
        if reason := self.missing():
            return reason
        if features.family.get(self.bank).kept():
            return None
        return (
            f"the features '{self.bank}' are not computed yet: that takes minutes, at first use or by "
            f"`privbench data features {self.bank}`"
        )

    def splits(self) -> Splits:
        """Pool and test, mapped once per process."""
        return records(self, data_root(), cache_root())


# The roots are part of the cache key: other roots hold other features.
@lru_cache(maxsize=2)
def records(head: Head, data: Path, cache: Path) -> Splits:
    """Pool and test of a workload on features."""
    arrays = features.family.get(head.bank).load()
    if head.fresh is not None:
        kept = head.fresh()
        arrays |= {name: arrays[name][kept] for name in ("test_x", "test_y")}
    pool, test = (
        Records(torch.from_numpy(arrays[f"{split}_x"]), torch.from_numpy(arrays[f"{split}_y"]))
        for split in ("train", "test")
    )
    return pool, test


def scattering(prefix: str, dataset: str, n_train: int, side: Side, version: str = "1") -> list[Head]:
    """Both heads of Handcrafted-DP and DPSUR on scattering features of one data set."""
    heads: dict[str, tuple[str, Callable[[int], nn.Module]]] = {
        "linear": ("one linear layer on scattering features", partial(scatter_linear, side=side)),
        "cnn": ("CNN with tanh on scattering features", partial(scatter_cnn, side=side)),
    }
    return [
        Head(
            f"{prefix}-scatter-{kind}",
            network,
            dataset,
            10,
            n_train,
            build,
            version=version,
            bank=f"{prefix}-scattering",
        )
        for kind, (network, build) in heads.items()
    ]


def vit(prefix: str, dataset: str, classes: int, n_train: int) -> Head:
    """PD-SGD's few-shot fine-tuning: a head with one weight per feature and class, and no bias."""
    build = partial(linear_head, features=768, classes=classes, bias=False)
    network = f"one linear layer 768-{classes} without bias on OpenCLIP ViT-B-16 features"
    return Head(f"{prefix}-vit-head", network, dataset, classes, n_train, build, bank=f"{prefix}-vit")


workloads = [
    *scattering("mnist", "mnist", 50_000, 28),
    *scattering("fmnist", "fashion-mnist", 50_000, 28),
    *scattering("cifar10", "cifar-10", 45_000, 32, version="2"),
    vit("cifar10", "cifar-10", 10, 500),
    vit("cifar100", "cifar-100", 100, 1_000),
    Head(
        "cifar10-effnet-head",
        "one linear layer 1280-10 on EfficientNet-Lite0 features",
        "cifar-10",
        10,
        25_000,
        partial(linear_head, features=1280, classes=10),
        bank="cifar10-effnet",
    ),
    Head(
        "imdb-minilm-head",
        "one linear layer 384-2 on MiniLM features of the first 79 words",
        "imdb",
        2,
        12_500,
        partial(linear_head, features=384, classes=2),
        bank="imdb-minilm",
        fresh=unseen_reviews,
    ),
]
