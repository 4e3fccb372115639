"""The formats of CIFAR: rows of bytes (its binary version) or pickled batches (its python version)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data.array_cache import Arrays
from workloads.data.dataset import Place
from workloads.data.foreign_files import read_members, wrong
from workloads.data.pickled import read_dict

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Label:
    """A label of every row: the array's name, its key in the python version, and its number of classes."""

    name: str
    key: str
    classes: int


@dataclass(frozen=True)
class Layout:
    """The batches of a split with their sizes, and the labels in the order of the binary version."""

    labels: tuple[Label, ...]
    train: dict[str, int]
    test: dict[str, int]

    @property
    def batches(self) -> dict[str, int]:
        """Every batch with its number of images."""
        return self.train | self.test


def places(name: str, layout: Layout, binary: str, python: str) -> tuple[Place, ...]:
    """Both versions, packed or in folders called `binary` and `python`, below `name` or at the root."""
    stems = tuple(layout.batches)
    return tuple(
        place
        for parent in (f"{name}/", "")
        for place in (
            Place(f"{parent}{name}-binary.tar.gz"),
            Place(parent + binary, tuple(f"{stem}.bin" for stem in stems)),
            Place(f"{parent}{name}-python.tar.gz"),
            Place(parent + python, stems),
        )
    )


def read_images(path: Path, layout: Layout) -> Arrays:
    """train_x, test_x: uint8 (n, 3, 32, 32), red, green, blue; and int64 labels from 0, train_y, test_y.

    Args:
        path: a folder or tar archive of either version.
        layout: which batches there must be, and their labels.
    """
    wanted = {f"{stem}{end}" for stem in layout.batches for end in (".bin", "")}
    limit = 2 * max(layout.batches.values()) * (PIXELS + 2) + 1_000_000  # pickles also hold file names
    found: dict[str, Arrays] = {}
    for name, content in read_members(path, lambda name: name.rpartition("/")[2] in wanted, limit):
        batch = name.rpartition("/")[2]
        read = read_binary if batch.endswith(".bin") else read_python
        stem = batch.removesuffix(".bin")
        found[stem] = read(f"{path}/{batch}" if path.is_dir() else f"{path}: {name}", content, layout, stem)
    if missing := [stem for stem in layout.batches if stem not in found]:
        raise wrong(path, f"the batches {', '.join(layout.batches)}", f"none called {', '.join(missing)}")
    return {
        f"{split}_{array}": np.concatenate([found[stem][array] for stem in stems])
        for split, stems in (("train", layout.train), ("test", layout.test))
        for array in ("x", *(label.name for label in layout.labels))
    }


def read_binary(path: str, content: bytes, layout: Layout, batch: str) -> Arrays:
    """One batch of the binary version: a byte per label, then the three planes, for every image."""
    count, width = layout.batches[batch], len(layout.labels) + PIXELS
    if len(content) != count * width:
        raise wrong(path, f"{count:,} rows of {width:,} bytes ({count * width:,})", f"{len(content):,} bytes")
    rows = np.frombuffer(content, np.uint8).reshape(count, width)
    labels = {label.name: rows[:, column] for column, label in enumerate(layout.labels)}
    return _batch(path, rows[:, len(layout.labels) :], labels, layout)


def read_python(path: str, content: bytes, layout: Layout, batch: str) -> Arrays:
    """One batch of the python version: a pickled dictionary with `data` and lists of labels."""
    count = layout.batches[batch]
    try:
        rows = read_dict(content)
    except ValueError as error:
        raise wrong(path, "a pickled batch of CIFAR: arrays, numbers and text only", str(error)) from error
    pixels = rows.get("data")
    if not isinstance(pixels, np.ndarray) or pixels.shape != (count, PIXELS) or pixels.dtype != np.uint8:
        shape = getattr(pixels, "shape", type(pixels).__name__)
        raise wrong(path, f"`data` of {count:,} x {PIXELS:,} unsigned bytes", f"{shape}")
    labels: dict[str, NDArray[Any]] = {}
    for label in layout.labels:
        values = rows.get(label.key)
        if not isinstance(values, list) or len(values) != count or not all(type(v) is int for v in values):
            raise wrong(path, f"`{label.key}` as a list of {count:,} whole numbers", type(values).__name__)
        labels[label.name] = np.array(values, dtype=np.int64)
    return _batch(path, pixels, labels, layout)


def _batch(path: str, pixels: NDArray[Any], labels: dict[str, NDArray[Any]], layout: Layout) -> Arrays:
    for label in layout.labels:
        values = labels[label.name]
        outside = values[(values < 0) | (values >= label.classes)]
        if len(outside):
            raise wrong(path, f"labels 0 to {label.classes - 1}", f"a label {outside[0]}")
    return {"x": pixels.reshape(-1, 3, 32, 32), **{n: each.astype(np.int64) for n, each in labels.items()}}
