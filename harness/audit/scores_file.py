"""Members and others from files: .npz arrays, or .csv and .parquet tables with a row per record."""

import re
from collections import defaultdict
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.errors import DataError

Columns = dict[str, NDArray[Any]]

KINDS = (".npz", ".csv", ".parquet")
PLAIN = {
    "label": "labels",
    "labels": "labels",
    "loss": "losses",
    "losses": "losses",
    "id": "ids",
    "ids": "ids",
    "member": "member",
    **{name: name for name in ("logits", "probabilities", "outputs", "features")},
}
"""Columns of a table with one value, or in Parquet one list, per record."""
NUMBERED = {"logit": "logits", "probability": "probabilities", "output": "outputs", "feature": "features"}
"""Columns in series: logit_0, logit_1, ..."""
SERIES = re.compile(r"^(shadow_(?P<shadow>\d+)_)?(?P<name>[a-z]+?)(_(?P<place>\w+))?$")


def read_file(path: Path, role: str) -> Columns:
    """The arrays of a file by the names of harness/audit/given.py; DataError if it cannot be read."""
    if not path.is_file():
        raise DataError(f"there is no file {path}", field=role, value=str(path), allowed="a file")
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise DataError(
            f"{path} is no {', '.join(KINDS)} file: write the outputs as one of these",
            field=role,
            value=path.suffix,
            allowed=KINDS,
        )
    try:
        return _arrays(path) if kind == ".npz" else _table(_columns(path, kind), path)
    except DataError:
        raise
    except (ValueError, OSError, ArithmeticError) as error:
        raise DataError(
            f"{path} cannot be read as {kind}: {error}", field=role, value=str(path), allowed=kind
        ) from error


def split_by_member(given: Mapping[str, Any], path: str) -> tuple[Columns, Columns]:
    """Members and others of one file with a `member` column."""
    arrays = {name: np.asarray(each) for name, each in given.items()}
    if "member" not in arrays:
        raise DataError(
            f"{path} has no column `member`, which says 1 for members and 0 for others; or give the others "
            "in a "
            "file of their own with --others",
            field="member",
            value=tuple(sorted(arrays)),
            allowed=(0, 1),
        )
    member = arrays["member"]
    if not np.isin(member, (0, 1)).all():
        raise DataError(
            f"`member` of {path} must be 1 and 0, or true and false",
            field="member",
            value=str(member[~np.isin(member, (0, 1))][0]),
            allowed=(0, 1),
        )
    inside = member.astype(np.bool_)
    rest = {name: each for name, each in arrays.items() if name != "member"}
    for name, each in rest.items():
        own = each.shape[1] if name.startswith("shadow_") and each.ndim > 1 else len(each)
        if own != len(inside):
            raise DataError(
                f"{path} has {len(inside)} records in `member` and {own} in `{name}`: give one for every "
                "record",
                field=name,
                value=own,
                allowed=len(inside),
            )
    return _rows(rest, inside), _rows(rest, ~inside)


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def _rows(arrays: Columns, kept: NDArray[np.bool_]) -> Columns:
    return {
        name: each[:, kept] if name.startswith("shadow_") else each[kept] for name, each in arrays.items()
    }


def _arrays(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as file:
        found = {name: file[name] for name in file.files}
    return {PLAIN.get(name, name): each for name, each in found.items()}


def _columns(path: Path, kind: str) -> Columns:
    """The columns of a table by name; lists of one length become the rows of an array."""
    import pyarrow
    from pyarrow import csv, parquet

    try:
        table = parquet.read_table(path) if kind == ".parquet" else csv.read_csv(path)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from error
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if column.null_count:
            raise DataError(
                f"{path}: {column.null_count} of {len(column)} values of {name} are missing",
                field=name,
                value=column.null_count,
                allowed=0,
            )
        lists = pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type)
        listed = lists or pyarrow.types.is_fixed_size_list(column.type)
        columns[name] = np.array(column.to_pylist()) if listed else column.to_numpy(zero_copy_only=False)
    return columns


def _table(columns: Columns, path: Path) -> Columns:
    """Series of columns gathered: logit_0 and logit_1 as logits, shadow_0_loss as shadow_losses."""
    arrays: Columns = {}
    series: dict[str, dict[int, Any]] = defaultdict(dict)
    shadows: dict[str, dict[int, dict[int, Any]]] = defaultdict(lambda: defaultdict(dict))
    for name, values in sorted(columns.items()):  # the features of two files in one order
        found = SERIES.match(name)
        single, several = (PLAIN.get(found["name"]), NUMBERED.get(found["name"])) if found else (None, None)
        if found is None or (single is None and several is None):
            raise _unread(name, path)
        place = found["place"]
        if several == "features":
            series[several][len(series[several])] = values
        elif found["shadow"] is not None:
            target = shadows[f"shadow_{'members' if single == 'member' else several or single}"]
            target[int(found["shadow"])][_number(place, name, path)] = values
        elif several is not None and place is not None:
            series[several][_number(place, name, path)] = values
        elif single is not None and place is None:
            arrays[single] = values
        else:
            raise _unread(name, path)
    for name, each in series.items():
        arrays[name] = np.stack(_in_order(each, name, path), axis=1)
    for name, models in shadows.items():
        stacked = [_in_order(each, name, path) for each in _in_order(models, name, path)]
        flat = name in ("shadow_members", "shadow_losses")
        arrays[name] = np.stack([each[0] if flat else np.stack(each, axis=1) for each in stacked])
    return arrays


def _number(place: str | None, name: str, path: Path) -> int:
    if place is None:
        return 0
    if not place.isdecimal():
        raise _unread(name, path)
    return int(place)


def _in_order(numbered: Mapping[int, Any], name: str, path: Path) -> list[Any]:
    """The values of a series that is numbered from 0 without a gap."""
    if sorted(numbered) != list(range(len(numbered))):
        raise DataError(
            f"{path}: {name} are numbered {', '.join(map(str, sorted(numbered)))}: number them from 0 "
            "without a gap",
            field=name,
            value=tuple(sorted(numbered)),
            allowed=tuple(range(len(numbered))),
        )
    return [numbered[place] for place in range(len(numbered))]


def _unread(name: str, path: Path) -> DataError:
    allowed = (
        *PLAIN,
        *(f"{each}_N" for each in NUMBERED),
        "shadow_N_logit_N",
        "shadow_N_loss",
        "shadow_N_member",
    )
    return DataError(
        f"{path} has a column {name}, which no audit reads: rename it to feature_{name} if it is a number "
        "that "
        f"describes the record, or leave it out; read are {', '.join(allowed)}",
        field="columns",
        value=name,
        allowed=allowed,
    )
