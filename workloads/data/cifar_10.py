"""CIFAR-10: small photographs in 10 classes. Arrays: train_x, train_y, test_x, test_y (see cifar.py)."""

from functools import partial

from workloads.data.cifar import Label, Layout, places, read_images
from workloads.data.dataset import File, Published

LAYOUT = Layout(
    labels=(Label("y", "labels", 10),),
    train={f"data_batch_{i}": 10_000 for i in range(1, 6)},
    test={"test_batch": 10_000},
)

dataset = Published(
    name="cifar-10",
    about="60,000 photographs in 10 classes, 32 x 32 colour: 50,000 train, 10,000 test",
    licence="none stated by the publisher",
    citation="Krizhevsky: Learning multiple layers of features from tiny images, 2009",
    places=places("cifar-10", LAYOUT, "cifar-10-batches-bin", "cifar-10-batches-py"),
    read=partial(read_images, layout=LAYOUT),
    files=(
        File(
            "cifar-10-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "c32a1d4ab5d03f1284b67883e8d87530",
            170_052_171,
        ),
    ),
    sums={
        "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    sha256="477ae002610c0d19c46767c924c08fd5a86c3b31429bdd8e330815289cbd2719",
)
