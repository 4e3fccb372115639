"""Records that a user gives: what is kept, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.plan.inspection.inspection import inspect
from harness.programs.given_records import FILE, Arrays, GivenRecords, dump_records
from workloads.errors import DataError


def workload(arrays: Arrays, folder: Path) -> GivenRecords:
    (folder / FILE).write_bytes(dump_records(arrays))
    return GivenRecords("records-0123456789ab", folder)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int64"])
def test_records_are_kept_as_they_are(dtype: str, arrays: Arrays, tmp_path: Path) -> None:
    given = {**arrays, "x": arrays["x"].astype(dtype), "test_x": arrays["test_x"].astype(dtype)}
    found = workload(given, tmp_path)
    assert np.array_equal(found.pool().x.numpy(), given["x"]) and found.pool().x.numpy().dtype == dtype
    assert np.array_equal(found.test().y.numpy(), given["test_y"])
    assert (found.classes, found.n_train) == (3, 50)
    assert inspect(found).problems == ()


def test_the_same_records_are_the_same_bytes(arrays: Arrays) -> None:
    again = {**arrays, "x": np.asfortranarray(arrays["x"]), "y": arrays["y"].astype(np.float64)}
    assert dump_records(arrays) == dump_records(again)
    assert dump_records(arrays) != dump_records({**arrays, "x": arrays["x"] + 1})


def test_truth_values_are_numbers(arrays: Arrays, tmp_path: Path) -> None:
    given = {**arrays, "x": arrays["x"] > 1, "test_x": arrays["test_x"] > 1}
    assert np.array_equal(workload(given, tmp_path).pool().x.numpy(), given["x"])


def _nan(x: Any) -> Any:
    broken = x.copy()
    broken[[3, 7], 1] = np.nan
    return broken


@pytest.mark.parametrize(
    ("part", "change", "field", "value", "allowed"),
    [
        ("x", _nan, "x", 2, 0),
        ("x", lambda x: x[:, 0], "x", (100,), "(n, ...)"),
        ("x", lambda x: x.astype("complex128"), "x", "complex128", None),
        ("x", lambda x: x[:, :3], "test_x", (4,), (3,)),
        ("x", lambda x: x.astype("float32"), "test_x", (4,), (4,)),
        ("test_x", lambda x: x[:0], "test_x", 0, 60),
        ("y", lambda y: y[:99], "x", 100, 99),
        ("y", lambda y: y[:, None], "y", (100, 1), "(n,)"),
        ("y", lambda y: y + 0.5, "y", "float64", "int64"),
        ("y", lambda y: y - 1, "y", -1, 0),
        ("y", np.zeros_like, "y", 1, 2),
    ],
)
def test_records_that_are_refused(
    part: str, change: Any, field: str, value: object, allowed: object, arrays: Arrays
) -> None:
    with pytest.raises(DataError) as refused:
        dump_records({**arrays, part: change(arrays[part])})
    assert (refused.value.field, refused.value.value) == (field, value)
    assert allowed is None or refused.value.allowed == allowed


def test_few_records_are_refused_with_what_could_be_said(arrays: Arrays) -> None:
    few = {**arrays, "x": arrays["x"][:40], "y": arrays["y"][:40]}
    with pytest.raises(DataError, match="with 20 non-members one false positive is already 5%") as refused:
        dump_records(few)
    assert (refused.value.field, refused.value.value, refused.value.allowed) == ("x", 40, 50)
