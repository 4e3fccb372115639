"""IDX files: read right, or refused with what is wrong."""

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from workloads.data.idx import FILES, read_idx, read_images
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf


def read(folder: Path) -> dict[str, np.ndarray]:
    return read_images(folder, train=6, test=4)


def test_reads_images_and_labels(shelf: "Shelf") -> None:
    made = shelf.mnist()
    arrays = read(shelf.root / "mnist")
    assert arrays["train_x"].shape == (6, 1, 28, 28)
    assert arrays["test_x"].dtype == np.uint8
    assert arrays["train_y"].dtype == np.int64
    for name in ("train_x", "test_x"):
        assert np.array_equal(arrays[name][:, 0], made[name])
    for name in ("train_y", "test_y"):
        assert np.array_equal(arrays[name], made[name])


def test_unpacked_files_give_the_same(shelf: "Shelf") -> None:
    shelf.mnist()
    packed = read(shelf.root / "mnist")
    for name in FILES.values():
        file = shelf.root / "mnist" / name
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    unpacked = read(shelf.root / "mnist")
    assert all(np.array_equal(packed[name], unpacked[name]) for name in packed)


def idx_bytes(magic: bytes, sizes: tuple[int, ...], count: int) -> bytes:
    return magic + b"".join(size.to_bytes(4, "big") for size in sizes) + bytes(count)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (gzip.compress(idx_bytes(b"\0\0\x08\x03", (6,), 6), mtime=0), "found 00000803"),
        (gzip.compress(idx_bytes(b"\0\0\x0d\x01", (6,), 24), mtime=0), "found 00000d01"),
        (gzip.compress(idx_bytes(b"\0\0\x08\x01", (7,), 7), mtime=0), "sizes 7"),
        (gzip.compress(idx_bytes(b"\0\0\x08\x01", (6,), 5), mtime=0), "found 5"),
        (gzip.compress(idx_bytes(b"\0\0\x08\x01", (6,), 9_000), mtime=0), "found more"),
        (gzip.compress(idx_bytes(b"\0\0\x08\x01", (6,), 6), mtime=0)[:-6], "truncated"),
        (b"<html>not found</html>", "found 3c68746d"),
        (b"", "an empty file"),
        (b"\0\0\x08\x01\0", "a header of 5 bytes"),
        (b"\x1f\x8b\x08\x00 no deflate stream", "broken or truncated"),
    ],
)
def test_refuses_what_is_not_it(shelf: "Shelf", content: bytes, found: str) -> None:
    file = shelf.write("labels.gz", content)
    with pytest.raises(BenchError) as caught:
        read_idx(file, (6,))
    assert found in str(caught.value)
    assert caught.value.field == str(file)


def test_refuses_a_label_out_of_range(shelf: "Shelf") -> None:
    shelf.mnist()
    shelf.idx("mnist/t10k-labels-idx1-ubyte.gz", np.array([0, 9, 10, 3], np.uint8))
    with pytest.raises(BenchError) as caught:
        read(shelf.root / "mnist")
    assert (caught.value.value, caught.value.allowed) == ("a label 10", "labels 0 to 9")
