"""Images as pixels, and networks trained on them from scratch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from workloads.base import Records
from workloads.data.array_cache import Arrays
from workloads.data.places import data_root
from workloads.features.pixels import COLOUR, GREY, IMAGENET, MNIST, Pixels, Scale
from workloads.models.cnn import cifar_cnn, keras_mnist_cnn, mnist_cnn, plain_mnist_cnn
from workloads.models.lenet import lenet
from workloads.models.mlp import mlp
from workloads.models.wrn import wrn
from workloads.published import OnPublishedData, Splits, published
from workloads.records import LazyRecords


@dataclass(frozen=True)
class Images(OnPublishedData):
    """A network on pixels. The pool is the publisher's training split, the test its test split."""

    scale: Scale = GREY
    lazy: bool = False
    """Whether pixels stay on disk until a batch needs them, instead of in memory as floats."""

    def splits(self) -> Splits:
        """Pool and test, read once per process."""
        return records(self.dataset, self.scale, self.lazy, data_root())


# Workloads of one data set run one after the other: caching two sets of pixels is enough.
@lru_cache(maxsize=2)
def records(dataset: str, scale: Scale, lazy: bool, root: Path) -> Splits:
    """Pool and test of a data set below a data root."""
    arrays = published(dataset).load()
    if "x" in arrays:
        arrays = split_people(arrays)
    pool, test = (_records(arrays, split, scale, lazy) for split in ("train", "test"))
    return pool, test


def _records(arrays: Arrays, split: str, scale: Scale, lazy: bool) -> Records:
    images, labels = arrays[f"{split}_x"], torch.from_numpy(np.array(arrays[f"{split}_y"]))
    return LazyRecords(Pixels(images, labels, scale), labels) if lazy else Records(scale(images), labels)


def split_people(arrays: Arrays) -> Arrays:
    """Faces as train and test: the last three or, for every second person, four photographs are for testing.

    That gives DirDP-SGD's 1,113 and 371 for its 106 people; the paper does not state which photographs.
    """
    x, y = arrays["x"], arrays["y"]
    held_out = np.concatenate([np.flatnonzero(y == person)[-(3 + person % 2) :] for person in np.unique(y)])
    kept: NDArray[np.bool_] = np.ones(len(y), bool)
    kept[held_out] = False
    return {"train_x": x[kept], "train_y": y[kept], "test_x": x[~kept], "test_y": y[~kept]}


def flat_mlp(seed: int, pixels: int, classes: int) -> nn.Sequential:
    """Two layers with 1,024 units between them, PRECODE's width (Scheliga et al. 2022)."""
    return nn.Sequential(nn.Flatten(), *mlp((pixels, 1024, classes), seed))


def images(
    name: str,
    network: str,
    dataset: str,
    n_train: int,
    build: Callable[[int], nn.Module],
    scale: Scale,
    classes: int = 10,
    lazy: bool = False,
) -> Images:
    """One workload."""
    return Images(name, network, dataset, classes, n_train, build, scale=scale, lazy=lazy)


TANH = "CNN with tanh (Papernot et al. 2021)"
RELU = "CNN with ReLU instead of tanh"
WIDE = "CNN with tanh, twice as wide (Bao and Bindschaedler 2024)"
LENET = "LeNet with sigmoids (Zhu et al. 2019)"
TWO_LAYERS = "MLP of two layers, 1,024 units"

workloads = [
    images("mnist-cnn", TANH, "mnist", 50_000, mnist_cnn, GREY),
    images("fmnist-cnn", TANH, "fashion-mnist", 50_000, mnist_cnn, GREY),
    images("cifar10-cnn", TANH, "cifar-10", 45_000, cifar_cnn, IMAGENET),
    images("mnist-cnn-relu", RELU, "mnist", 50_000, partial(mnist_cnn, act="relu"), GREY),
    images("fmnist-cnn-relu", RELU, "fashion-mnist", 50_000, partial(mnist_cnn, act="relu"), GREY),
    images("cifar10-cnn-relu", RELU, "cifar-10", 45_000, partial(cifar_cnn, act="relu"), IMAGENET),
    images(
        "mnist-cnn-opacus",
        "CNN with ReLU of Opacus's example",
        "mnist",
        50_000,
        partial(mnist_cnn, act="relu", padding=3),
        MNIST,
    ),
    images(
        "mnist-cnn-keras",
        "CNN with ReLU of TensorFlow Privacy's tutorial",
        "mnist",
        50_000,
        keras_mnist_cnn,
        GREY,
    ),
    images("mnist-cnn-wide", WIDE, "mnist", 50_000, partial(mnist_cnn, widths=(32, 64)), GREY),
    images("fmnist-cnn-wide", WIDE, "fashion-mnist", 50_000, partial(mnist_cnn, widths=(32, 64)), GREY),
    images("mnist-cnn-kfc", "CNN with ReLU of DP-KFC", "mnist", 50_000, plain_mnist_cnn, MNIST),
    images(
        "fmnist-lenet", LENET, "fashion-mnist", 30_000, partial(lenet, channels=1, side=28, classes=10), GREY
    ),
    images(
        "cifar10-lenet", LENET, "cifar-10", 25_000, partial(lenet, channels=3, side=32, classes=10), COLOUR
    ),
    images(
        "cifar100-lenet",
        LENET,
        "cifar-100",
        25_000,
        partial(lenet, channels=3, side=32, classes=100),
        COLOUR,
        100,
    ),
    images("lfw-lenet", LENET, "lfw", 556, partial(lenet, channels=3, side=32, classes=106), COLOUR, 106),
    images(
        "fmnist-mlp", TWO_LAYERS, "fashion-mnist", 30_000, partial(flat_mlp, pixels=784, classes=10), GREY
    ),
    images("cifar10-mlp", TWO_LAYERS, "cifar-10", 25_000, partial(flat_mlp, pixels=3072, classes=10), COLOUR),
    images(
        "cifar100-mlp",
        TWO_LAYERS,
        "cifar-100",
        25_000,
        partial(flat_mlp, pixels=3072, classes=100),
        COLOUR,
        100,
    ),
    images("lfw-mlp", TWO_LAYERS, "lfw", 556, partial(flat_mlp, pixels=3072, classes=106), COLOUR, 106),
    images(
        "cifar10-wrn16-4",
        "WRN-16-4 with GroupNorm (De et al. 2022)",
        "cifar-10",
        30_000,
        partial(wrn, depth=16, width=4, classes=10),
        IMAGENET,
        lazy=True,
    ),
    images(
        "cifar100-wrn28-2",
        "WRN-28-2 with GroupNorm (De et al. 2022)",
        "cifar-100",
        25_000,
        partial(wrn, depth=28, width=2, classes=100),
        IMAGENET,
        100,
        lazy=True,
    ),
]
