"""The IDX format of MNIST and its relatives: a magic number, the sizes, then bytes; usually gzip."""

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data.array_cache import Arrays
from workloads.data.dataset import Place, variants
from workloads.data.foreign_files import open_plain, wrong

FILES = {
    "train_x": "train-images-idx3-ubyte.gz",
    "train_y": "train-labels-idx1-ubyte.gz",
    "test_x": "t10k-images-idx3-ubyte.gz",
    "test_y": "t10k-labels-idx1-ubyte.gz",
}


def places(*folders: str) -> tuple[Place, ...]:
    """The folders, each of which must hold all four files."""
    return tuple(Place(folder, tuple(FILES.values())) for folder in folders)


def read_images(folder: Path, train: int = 60_000, test: int = 10_000, classes: int = 10) -> Arrays:
    """train_x, test_x: uint8 (n, 1, 28, 28), 0 is background; train_y, test_y: int64 labels from 0.

    Args:
        folder: holds the four files, packed or unpacked.
        train: the number of training images there must be.
        test: the number of test images there must be.
        classes: labels are below this.
    """
    arrays: Arrays = {}
    for split, count in (("train", train), ("test", test)):
        images, labels = f"{split}_x", f"{split}_y"
        arrays[images] = read_idx(_path(folder, images), (count, 28, 28)).reshape(count, 1, 28, 28)
        y = read_idx(_path(folder, labels), (count,))
        if count and int(y.max()) >= classes:
            raise wrong(_path(folder, labels), f"labels 0 to {classes - 1}", f"a label {y.max()}")
        arrays[labels] = y.astype(np.int64)
    return arrays


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Unsigned bytes of exactly this shape."""
    size = math.prod(shape)
    length = 4 + 4 * len(shape)
    expected = f"an IDX file of unsigned bytes, {' x '.join(map(str, shape))}"
    try:
        with open_plain(path) as file:
            header = file.read(length)
            content = file.read(size + 1)  # one more detects a longer file; no more, against gzip bombs
    except (EOFError, OSError, zlib.error) as error:
        raise wrong(path, expected, f"a broken or truncated file ({error})") from error
    magic = bytes([0, 0, 8, len(shape)])
    if header[:4] != magic:
        raise wrong(
            path, f"{expected} (it begins with {magic.hex()})", f"{header[:4].hex() or 'an empty file'}"
        )
    if len(header) < length:
        raise wrong(path, expected, f"a header of {len(header)} bytes")
    sizes: NDArray[Any] = np.frombuffer(header[4:], ">u4")
    if tuple(sizes.tolist()) != shape:
        raise wrong(path, expected, f"sizes {' x '.join(map(str, sizes.tolist()))}")
    if len(content) != size:
        found = "more" if len(content) > size else f"{len(content):,}"
        raise wrong(path, f"{expected}: {size:,} bytes after the header", found)
    return np.frombuffer(content, np.uint8).reshape(shape)


def _path(folder: Path, array: str) -> Path:
    return next(each for each in variants(folder / FILES[array]) if each.exists())
