"""Fashion-MNIST: articles of clothing. Arrays: train_x, train_y, test_x, test_y (see idx.py)."""

from workloads.data.dataset import File, Published
from workloads.data.idx import places, read_images

HOST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


def _file(name: str, md5: str, size: int) -> File:
    return File(name, (HOST + name,), md5, size)


dataset = Published(
    name="fashion-mnist",
    about="70,000 articles of clothing in 10 classes, 28 x 28 grey: 60,000 train, 10,000 test",
    licence="MIT",
    citation="Xiao, Rasul and Vollgraf: Fashion-MNIST, arXiv 1708.07747, 2017",
    places=places("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
    read=read_images,
    files=(
        _file("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        _file("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
        _file("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        _file("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    ),
    sums={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    sha256="dc6dc6b98c84991b711670a1cc385cec7e54583ee45714846e1958c5ed10dafc",
)
