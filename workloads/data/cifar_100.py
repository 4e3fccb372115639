"""CIFAR-100: small colour photographs in 100 classes.

Arrays: train_x, train_y, test_x, test_y (see cifar.py); train_coarse, test_coarse are the 20 superclasses.
"""

from functools import partial

from workloads.data.cifar import Label, Layout, places, read_images
from workloads.data.dataset import File, Published

LAYOUT = Layout(
    labels=(Label("coarse", "coarse_labels", 20), Label("y", "fine_labels", 100)),
    train={"train": 50_000},
    test={"test": 10_000},
)

dataset = Published(
    name="cifar-100",
    about="60,000 photographs in 100 classes, 32 x 32 colour: 50,000 train, 10,000 test",
    licence="none stated by the publisher",
    citation="Krizhevsky: Learning multiple layers of features from tiny images, 2009",
    places=places("cifar-100", LAYOUT, "cifar-100-binary", "cifar-100-python"),
    read=partial(read_images, layout=LAYOUT),
    files=(
        File(
            "cifar-100-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            "03b5dce01913d631647c71ecec9e9cb8",
            168_513_733,
        ),
    ),
    sums={
        "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    },
)
