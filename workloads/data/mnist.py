"""MNIST: handwritten digits. Arrays: train_x, train_y, test_x, test_y (see idx.py)."""

from workloads.data.dataset import File, Published
from workloads.data.idx import places, read_images

# The first is the publisher's page, which is no longer reliable; the second is the copy PyTorch uses.
HOSTS = ("http://yann.lecun.com/exdb/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")


def _file(name: str, md5: str, size: int) -> File:
    return File(name, tuple(host + name for host in HOSTS), md5, size)


dataset = Published(
    name="mnist",
    about="70,000 handwritten digits, 28 x 28 grey: 60,000 train, 10,000 test",
    licence="none stated by the publisher",
    citation="LeCun, Bottou, Bengio and Haffner: "
    "Gradient-based learning applied to document recognition, 1998",
    places=places("mnist", "MNIST/raw", "MNIST"),
    read=read_images,
    files=(
        _file("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
        _file("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
        _file("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
        _file("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
    ),
    sums={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    sha256="715fbfa8e5a2b3b79d25a76c494978941225d432042d8a6ce40a040b31bc2efa",
)
