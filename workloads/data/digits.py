"""The handwritten digits that ship with scikit-learn, with a fixed split."""

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from workloads.base import Records
from workloads.data.dataset import Embedded

SPLIT_SEED = 20240


def read() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What sklearn.datasets.load_digits returns, without the import: it takes as long as some trainings."""
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the digits ship with scikit-learn, which is not installed")
    with gzip.open(Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


@cache
def load_split() -> tuple[Records, Records]:
    """Pool (1,437 records) and test set (360): 64 pixels in [0, 1], labels 0 to 9.

    Stratified: the shuffled records are ordered by label and every fifth goes to the test set, so
    each class is split evenly to within one record. Rows keep the order of the source.
    """
    pixels, labels = read()
    shuffled = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    in_test = np.zeros(len(labels), dtype=bool)
    in_test[by_label[::5]] = True
    x = torch.tensor(pixels / 16.0, dtype=torch.float32)
    y = torch.tensor(labels, dtype=torch.int64)
    records = Records(x, y)
    return (
        records.take(torch.from_numpy(np.flatnonzero(~in_test))),
        records.take(torch.from_numpy(np.flatnonzero(in_test))),
    )


def content() -> bytes:
    """Pixels and labels as bytes, for the checksum."""
    pixels, labels = read()
    return bytes(pixels.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes())


dataset = Embedded(
    about="1,797 handwritten digits, 8 x 8 grey",
    licence="CC BY 4.0",
    citation="Alpaydin and Kaynak: Optical recognition of handwritten digits, UCI repository, 1998",
    where="scikit-learn",
    sha256="87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826",
    content=content,
)
