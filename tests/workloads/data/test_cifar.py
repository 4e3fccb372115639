"""Both versions of CIFAR, packed and unpacked, give the same arrays; wrong files are named."""

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from workloads.data import cifar_10, cifar_100
from workloads.data.cifar import Label, Layout, read_images
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf

LAYOUTS = {
    "cifar-10": Layout(cifar_10.LAYOUT.labels, {"data_batch_1": 3, "data_batch_2": 3}, {"test_batch": 2}),
    "cifar-100": Layout(cifar_100.LAYOUT.labels, {"train": 5}, {"test": 2}),
}


def batches(layout: Layout) -> dict[str, dict[str, Any]]:
    """Random pixels and labels for every batch."""
    random = np.random.default_rng(3)
    return {
        stem: {"data": random.integers(256, size=(count, 3072), dtype=np.uint8)}
        | {label.key: random.integers(label.classes, size=count).tolist() for label in layout.labels}
        for stem, count in layout.batches.items()
    }


def binary(batch: dict[str, Any], labels: tuple[Label, ...]) -> bytes:
    columns = [np.array(batch[label.key], np.uint8)[:, None] for label in labels]
    return np.concatenate([*columns, batch["data"]], axis=1).tobytes()


def python(batch: dict[str, Any]) -> bytes:
    return pickle.dumps({key.encode(): value for key, value in batch.items()}, protocol=2)


@pytest.mark.parametrize("name", LAYOUTS)
def test_both_versions_packed_or_not(shelf: "Shelf", name: str) -> None:
    layout = LAYOUTS[name]
    made = batches(layout)
    as_binary = {f"{stem}.bin": binary(batch, layout.labels) for stem, batch in made.items()}
    as_python = {stem: python(batch) for stem, batch in made.items()}
    paths = []
    for folder, files in (("bin", as_binary), ("py", as_python)):
        for file, content in files.items():
            shelf.write(f"{folder}/{file}", content)
        paths.append(shelf.root / folder)
        paths.append(
            shelf.tar(f"{folder}.tar.gz", {f"{name}-x/{file}": each for file, each in files.items()})
        )
    for path in paths:
        arrays = read_images(path, layout)
        for split, stems in (("train", layout.train), ("test", layout.test)):
            pixels = np.concatenate([made[stem]["data"] for stem in stems])
            assert np.array_equal(arrays[f"{split}_x"], pixels.reshape(-1, 3, 32, 32))
            assert arrays[f"{split}_x"].dtype == np.uint8
            for label in layout.labels:
                expected = [value for stem in stems for value in made[stem][label.key]]
                assert arrays[f"{split}_{label.name}"].tolist() == expected
                assert arrays[f"{split}_{label.name}"].dtype == np.int64


def test_the_first_plane_is_red(shelf: "Shelf") -> None:
    layout = Layout(cifar_10.LAYOUT.labels, {"data_batch_1": 1}, {"test_batch": 1})
    row = bytes([7]) + bytes([255]) * 1024 + bytes(2048)
    for stem in layout.batches:
        shelf.write(f"bin/{stem}.bin", row)
    image = read_images(shelf.root / "bin", layout)["train_x"][0]
    assert image[0].min() == 255
    assert image[1:].max() == 0


@pytest.fixture
def folder(shelf: "Shelf") -> Path:
    """CIFAR-10, three batches in the binary version."""
    layout = LAYOUTS["cifar-10"]
    for stem, batch in batches(layout).items():
        shelf.write(f"bin/{stem}.bin", binary(batch, layout.labels))
    return shelf.root / "bin"


def refused(folder: Path, *parts: str) -> None:
    with pytest.raises(BenchError) as caught:
        read_images(folder, LAYOUTS["cifar-10"])
    for part in parts:
        assert part in str(caught.value)


def test_a_truncated_batch_is_named(folder: Path) -> None:
    file = folder / "data_batch_2.bin"
    file.write_bytes(file.read_bytes()[:-1])
    refused(folder, "data_batch_2.bin", "3 rows of 3,073 bytes (9,219)", "found 9,218 bytes")


def test_a_label_out_of_range_is_named(folder: Path) -> None:
    file = folder / "test_batch.bin"
    file.write_bytes(bytes([10]) + file.read_bytes()[1:])
    refused(folder, "test_batch.bin", "labels 0 to 9", "a label 10")


def test_a_missing_batch_is_named(folder: Path) -> None:
    (folder / "data_batch_1.bin").unlink()
    refused(folder, "none called data_batch_1")


def test_a_batch_far_too_big_is_not_read(folder: Path) -> None:
    with (folder / "test_batch.bin").open("r+b") as file:
        file.truncate(10**10)
    refused(folder, "test_batch.bin", "found 10,000,000,000")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"data": np.zeros((2, 3071), np.uint8)}, "(2, 3071)"),
        ({"data": [1, 2]}, "list"),
        ({"labels": [1]}, "`labels` as a list of 2"),
        ({"labels": [1, -1]}, "a label -1"),
        ({"labels": [True, "x"]}, "`labels` as a list of 2"),
    ],
)
def test_a_pickle_of_something_else_is_named(shelf: "Shelf", change: dict[str, Any], found: str) -> None:
    for stem, batch in batches(LAYOUTS["cifar-10"]).items():
        shelf.write(f"py/{stem}", python(batch | (change if stem == "test_batch" else {})))
    refused(shelf.root / "py", "test_batch", found)


def test_a_broken_archive_is_named(shelf: "Shelf", folder: Path) -> None:
    whole = shelf.tar("whole.tar.gz", {file.name: file.read_bytes() for file in folder.iterdir()})
    refused(shelf.write("cut.tar.gz", whole.read_bytes()[:-2000]), "cut.tar.gz", "a whole tar archive")
    refused(shelf.write("page.tar.gz", b"<html>"), "page.tar.gz", "a whole tar archive")
