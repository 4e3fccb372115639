"""Predictions of a user's model as logits, or the reason why they are none."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from workloads.errors import DataError

TOLERANCE = 1e-3
"""Of the sum of a record's probabilities."""
SMALLEST = np.log(1e-45)
"""A probability of zero counts as this much, in logits, below the largest (harness/leakage/scoring.py)."""


def read_predictions(file: Path) -> NDArray[Any]:
    """The array in a file of numpy, or of numbers in columns; DataError if it holds none.

    An .npz file holds one array.
    """
    try:
        with file.open("rb") as opened:
            head = opened.read(6)
            opened.seek(0)
            if head.startswith(b"PK"):
                with np.load(opened, allow_pickle=False) as arrays:
                    found: NDArray[Any] = arrays[arrays.files[0]]
                return found
            if head == b"\x93NUMPY":
                plain: NDArray[Any] = np.load(opened, allow_pickle=False)
                return plain
        return _read_csv(file)
    except FileNotFoundError:
        raise DataError(
            "the program wrote no predictions: it must write them to the file that {predictions} stands "
            "for, one row of probabilities or logits per record asked for",
            field="predictions",
            value=None,
            allowed="npy, npz or csv",
        ) from None
    except (OSError, EOFError, ValueError, IndexError, BadZipFile) as error:
        raise DataError(
            f"the predictions cannot be read: {error}: write one array as npy or npz, or numbers as csv",
            field="predictions",
            value=type(error).__name__,
            allowed="npy, npz or csv",
        ) from error


def _read_csv(file: Path) -> NDArray[np.float64]:
    """Rows of numbers; a first line that holds none is a header."""
    with file.open(encoding="utf-8-sig") as opened:
        first = opened.readline()
    if not first:
        raise ValueError("the file is empty")
    try:
        [float(each) for each in first.split(",")]
        header = 0
    except ValueError:
        header = 1
    return np.loadtxt(file, delimiter=",", ndmin=2, skiprows=header, encoding="utf-8-sig")


def to_logits(found: NDArray[Any], records: int, classes: int) -> NDArray[np.float32]:
    """Logits from probabilities or logits; DataError for wrong shapes, NaN, or rows that do not sum to 1.

    A single column, or none, is that of class 1 of two. Predictions that all lie between 0 and 1 are
    probabilities.
    """
    wanted = (records, classes)
    shape = tuple(found.shape)
    if found.dtype.kind not in "fiub":
        raise _wrong(f"are of type {found.dtype}", str(found.dtype), "numbers")
    single = classes == 2 and shape in ((records,), (records, 1))
    if not single and shape != wanted:
        raise _wrong(f"have shape {shape}, not {wanted}: a row per record, a column per class", shape, wanted)
    values = found.reshape(records, -1).astype(np.float64)
    broken = ~np.isfinite(values).all(axis=1)
    if broken.any():
        row, many = int(np.flatnonzero(broken)[0]), int(broken.sum())
        raise _wrong(f"of {many:,} of {records:,} records are NaN or infinite, first in row {row}", many, 0)
    likely = bool(values.min() >= 0 and values.max() <= 1)
    if single:
        values = np.hstack([1 - values if likely else np.zeros_like(values), values])
    if likely:
        sums = values.sum(axis=1)
        off = np.abs(sums - 1)
        if off.max() > TOLERANCE:
            row = int(off.argmax())
            raise _wrong(
                f"lie between 0 and 1 but do not sum to 1 (row {row} sums to {sums[row]:.4g}): give "
                "probabilities, or logits",
                float(sums[row]),
                1.0,
            )
        values = _logarithms(values)
    return values.astype(np.float32)


def _logarithms(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms, finite where a probability is zero: below all others of the record."""
    found = np.log(np.where(chances > 0, chances, np.nan))
    lowest = np.fmin(np.nanmin(found, axis=1), np.nanmax(found, axis=1) + SMALLEST)
    return np.where(chances > 0, found, lowest[:, None])


def _wrong(what: str, value: object, allowed: object) -> DataError:
    return DataError(f"the predictions {what}", field="predictions", value=value, allowed=allowed)
