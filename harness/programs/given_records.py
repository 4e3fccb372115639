"""Records that a user gave for an audit: checked once, kept as safetensors, and the workload made of them."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save
from safetensors.torch import load_file
from torch import Tensor, nn

from workloads.base import Records
from workloads.errors import DataError

PARTS = ("x", "y", "test_x", "test_y")
FILE = "records.safetensors"
LEAST = 50
"""Records of a pool that are worth an audit."""
TYPES = ("float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64")
"""Types of features that numpy, torch and safetensors have in common; they are kept as they are."""

Arrays = Mapping[str, NDArray[Any]]


def dump_records(given: Arrays) -> bytes:
    """Records as a safetensors file, the same bytes for the same records; DataError if they are unfit."""
    x, test_x = _features("x", given["x"]), _features("test_x", given["test_x"])
    y, test_y = _labels("y", given["y"]), _labels("test_y", given["test_y"])
    for features, labels, kind in ((x, y, "x"), (test_x, test_y, "test_x")):
        if len(features) != len(labels):
            both = f"{len(features):,} records in {kind}, {len(labels):,} labels in {kind[:-1]}y"
            raise _wrong(f"{both}: give one label per record", kind, len(features), len(labels))
    if x.shape[1:] != test_x.shape[1:] or x.dtype != test_x.dtype:
        both = f"x has records of shape {x.shape[1:]} and type {x.dtype}, test_x {test_x.shape[1:]} and"
        raise _wrong(f"{both} {test_x.dtype}: give both the same", "test_x", test_x.shape[1:], x.shape[1:])
    if len(x) < LEAST:
        raise _wrong(
            f"x has {len(x)} records: an audit needs {LEAST} or more, and 2,000 for a TPR at 1 % FPR. Half "
            f"of them are members of each model: with {len(x) // 2} non-members one false positive is "
            f"already {2 / max(1, len(x)):.0%}, and only an AUC with a wide interval could be stated",
            "x",
            len(x),
            LEAST,
        )
    if len(test_x) == 0:
        raise _wrong("test_x has no records: accuracy is measured on them", "test_x", 0, 1)
    classes = np.unique(y)
    if len(classes) < 2:
        raise _wrong(
            f"all labels in y are {classes[0]}: with one class no attack on predictions can tell members "
            "from others; give records of two classes or more",
            "y",
            1,
            2,
        )
    return save({"x": x, "y": y, "test_x": test_x, "test_y": test_y})


def _features(name: str, given: NDArray[Any]) -> NDArray[Any]:
    """Finite features of a type that is kept; truth values become 0 and 1."""
    found = given.astype(np.uint8) if given.dtype == np.bool_ else given
    if found.ndim < 2:
        advice = f"give rows of features, such as {name}.reshape(-1, 1)"
        raise _wrong(f"{name} has shape {found.shape}: {advice}", name, found.shape, "(n, ...)")
    if found.dtype.name not in TYPES:
        advice = f"give one of {', '.join(TYPES)}, such as {name}.astype('float32')"
        raise _wrong(f"{name} is of type {found.dtype}: {advice}", name, str(found.dtype), TYPES)
    broken = ~np.isfinite(found).all(axis=tuple(range(1, found.ndim)))
    if broken.any():
        row = int(broken.nonzero()[0][0])
        raise _wrong(
            f"{int(broken.sum()):,} of {len(found):,} records in {name} have NaN or infinite values, the "
            f"first in row {row}: leave these records out, or fill the gaps",
            name,
            int(broken.sum()),
            0,
        )
    return np.ascontiguousarray(found)


def _labels(name: str, given: NDArray[Any]) -> NDArray[np.int64]:
    """Class numbers from 0."""
    advice = f"numpy.unique({name}, return_inverse=True)[1] numbers them"
    if given.ndim != 1:
        raise _wrong(f"{name} has shape {given.shape}: give one label per record", name, given.shape, "(n,)")
    whole = given.dtype.kind in "iub" or (given.dtype.kind == "f" and bool((given == given.round()).all()))
    if not whole:
        raise _wrong(f"labels in {name} are no whole numbers: {advice}", name, str(given.dtype), "int64")
    if len(given) and given.min() < 0:
        raise _wrong(f"labels in {name} begin at {given.min()}, not 0: {advice}", name, int(given.min()), 0)
    return np.ascontiguousarray(given.astype(np.int64))


def _wrong(message: str, field: str, value: object, allowed: object) -> DataError:
    return DataError(message, field=field, value=value, allowed=allowed)


class Absent(nn.Module):
    """Stands where a workload has a fresh model: the user's program makes its own."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        """Equal logits for all classes."""
        return torch.zeros(len(x), self.classes)


class GivenRecords:
    """The workload of records that a user gave."""

    version = "1"
    source = "given by the user of this store"

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder

    @cached_property
    def arrays(self) -> dict[str, Tensor]:
        """All records."""
        found: dict[str, Tensor] = load_file(self.folder / FILE)
        return found

    @cached_property
    def about(self) -> str:
        """One line about them."""
        shape = "x".join(map(str, self.arrays["x"].shape[1:]))
        return f"{len(self.arrays['x']):,} records of {shape} features, in {self.classes} classes"

    @cached_property
    def classes(self) -> int:
        """The number of classes."""
        return int(max(self.arrays["y"].max(), self.arrays["test_y"].max())) + 1

    @property
    def n_train(self) -> int:
        """Half of the pool, for as many non-members as members."""
        return len(self.arrays["x"]) // 2

    def pool(self) -> Records:
        """The records from which members are drawn."""
        return Records(self.arrays["x"], self.arrays["y"])

    def test(self) -> Records:
        """The test records."""
        return Records(self.arrays["test_x"], self.arrays["test_y"])

    def model(self, seed: int) -> nn.Module:
        """None of its own; see Absent."""
        return Absent(self.classes)
