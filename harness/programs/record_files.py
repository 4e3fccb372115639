"""Files of records that a user gives, and that a program gets: .npz of numpy, or .csv for any language.

npz   given: x, y, test_x, test_y; members: x, y; records to predict: x
csv   given: a column y, a column `part` with pool or test, all others features; members: y and the
      features; records to predict: the features. All with a header, in the given order of columns.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from harness.programs.given_records import PARTS, Arrays
from workloads.errors import DataError

Format = Literal["npz", "csv"]
LABEL, PART = "y", "part"
SIDES = ("pool", "test")


def format_of(file: Path) -> Format:
    """The format of a file of records by its suffix; DataError for another."""
    for each in ("npz", "csv"):
        if file.suffix.lower() == f".{each}":
            return each
    raise _unreadable(file, "its name ends in neither .npz nor .csv", file.suffix)


def read_given(file: Path) -> tuple[Arrays, list[str] | None]:
    """The records of a file, and the names of its features if it has any; DataError if it holds none."""
    try:
        return (_read_npz(file), None) if format_of(file) == "npz" else _read_csv(file)
    except (OSError, EOFError, ValueError, AttributeError, BadZipFile, csv.Error) as error:
        raise _unreadable(file, str(error), type(error).__name__) from error


def write_members(file: Path, x: NDArray[Any], y: NDArray[Any], features: Sequence[str] | None) -> None:
    """The members of a model, as a program reads them."""
    if features is None:
        np.savez(file, x=x, y=y)
    else:
        _write_csv(file, [LABEL, *features], x, [[str(label)] for label in y.tolist()])


def write_asked(file: Path, x: NDArray[Any], features: Sequence[str] | None) -> None:
    """The records to predict, as a program reads them."""
    if features is None:
        np.savez(file, x=x)
    else:
        _write_csv(file, features, x, [[]] * len(x))


def _write_csv(file: Path, names: Sequence[str], x: NDArray[Any], before: Sequence[list[str]]) -> None:
    """Rows of features behind other columns, each number as the shortest text that gives it back."""
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([*head, *map(repr, row)] for head, row in zip(before, x.tolist(), strict=True))


def _read_npz(file: Path) -> Arrays:
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
        missing = [name for name in PARTS if name not in found.files]
        if missing:
            raise _incomplete(file, missing, PARTS)
        return {name: found[name] for name in PARTS}


def _read_csv(file: Path) -> tuple[Arrays, list[str]]:
    with file.open(encoding="utf-8-sig", newline="") as opened:
        rows = csv.reader(opened)
        names = [each.strip() for each in next(rows, [])]
        content = [row for row in rows if row]
    missing = [name for name in (LABEL, PART) if name not in names]
    if missing:
        raise _incomplete(file, missing, (LABEL, PART))
    part, label = names.index(PART), names.index(LABEL)
    strange = sorted({row[part] for row in content} - {*SIDES})
    if strange:
        message = f"{file}: column {PART} holds '{strange[0]}': give pool or test in every row"
        raise DataError(message, field=PART, value=strange[0], allowed=SIDES)
    features = [column for column in range(len(names)) if column not in (part, label)]
    x = np.array([[float(row[column]) for column in features] for row in content])
    y = np.array([float(row[label]) for row in content])
    pool = np.array([row[part] == SIDES[0] for row in content], dtype=bool)
    arrays = {"x": x[pool], "y": y[pool], "test_x": x[~pool], "test_y": y[~pool]}
    return arrays, [names[column] for column in features]


def _incomplete(file: Path, missing: Sequence[str], needed: Sequence[str]) -> DataError:
    message = f"{file} has no {', '.join(missing)}: give {', '.join(needed)}"
    return DataError(message, field="--data", value=tuple(missing), allowed=tuple(needed))


def _unreadable(file: Path, why: str, value: object) -> DataError:
    return DataError(
        f"{file} cannot be read as records: {why}: give an .npz file with {', '.join(PARTS)}, or a .csv file "
        f"with columns {LABEL}, {PART} (pool or test) and the features",
        field="--data",
        value=value,
        allowed=(".npz", ".csv"),
    )
