"""The same records from .npz, .csv and .parquet are the same arrays; other files are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from harness.audit.scores_file import read_file, split_by_member
from workloads.errors import DataError


def table_of(arrays: dict[str, Any]) -> pa.Table:
    """A column per class, feature and shadow."""
    columns: dict[str, Any] = {"label": arrays["labels"]}
    columns |= {f"logit_{place}": each for place, each in enumerate(arrays["logits"].T)}
    columns |= {f"feature_{place}": each for place, each in enumerate(arrays["features"].T)}
    for shadow, logits in enumerate(arrays["shadow_logits"]):
        columns |= {f"shadow_{shadow}_logit_{place}": each for place, each in enumerate(logits.T)}
        columns[f"shadow_{shadow}_member"] = arrays["shadow_members"][shadow].astype(int)
    return pa.table(columns)


def test_a_table_holds_what_arrays_hold(simulated: Callable[..., Any], tmp_path: Path) -> None:
    arrays, _ = simulated(60, 60, shadows=11)  # shadow_10 is not between shadow_1 and shadow_2
    files = [tmp_path / f"members{kind}" for kind in (".npz", ".csv", ".parquet")]
    np.savez(files[0], **arrays)
    csv.write_csv(table_of(arrays), files[1])
    parquet.write_table(table_of(arrays), files[2])
    first, *rest = (read_file(file, "members") for file in files)
    assert set(first) == {"labels", "logits", "features", "shadow_logits", "shadow_members"}
    for found in rest:
        assert set(found) == set(first)
        for name, each in first.items():
            np.testing.assert_allclose(found[name].astype(np.float64), each, rtol=1e-6)


def test_lists_of_parquet_are_rows(tmp_path: Path) -> None:
    file = tmp_path / "members.parquet"
    parquet.write_table(pa.table({"probabilities": [[0.1, 0.9], [0.5, 0.5]], "label": [1, 0]}), file)
    np.testing.assert_array_equal(read_file(file, "members")["probabilities"], [[0.1, 0.9], [0.5, 0.5]])


def test_losses_of_shadows_are_columns(tmp_path: Path) -> None:
    file = tmp_path / "one.csv"
    file.write_text("loss,shadow_0_loss,shadow_0_member,member\n0.1,0.2,1,1\n0.3,0.4,0,0\n0.5,0.6,1,1\n")
    members, others = split_by_member(read_file(file, "members"), str(file))
    np.testing.assert_array_equal(members["losses"], [0.1, 0.5])
    np.testing.assert_array_equal(members["shadow_losses"], [[0.2, 0.6]])
    np.testing.assert_array_equal(others["shadow_members"], [[0]])


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("logit_0,logit_1,age,label\n1,2,3,0\n", "columns", "age"),
        ("logit_0,logit_2,label\n1,2,0\n", "logits", (0, 2)),
        ("loss,label\n1,0\n,1\n", "loss", 1),
        ("logit_x,label\n1,0\n", "columns", "logit_x"),
    ],
)
def test_wrong_columns_are_named(text: str, field: str, value: Any, tmp_path: Path) -> None:
    file = tmp_path / "members.csv"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_file(file, "members")
    assert (caught.value.field, caught.value.value) == (field, value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "members.npz").write_bytes(b"no archive")
    (tmp_path / "members.txt").touch()
    np.savez(tmp_path / "objects.npz", logits=np.array([{"a": 1}]))
    for name, value in (
        ("members.npz", str(tmp_path / "members.npz")),
        ("members.txt", ".txt"),
        ("none.npz", str(tmp_path / "none.npz")),
        ("objects.npz", str(tmp_path / "objects.npz")),
    ):
        with pytest.raises(DataError) as caught:
            read_file(tmp_path / name, "members")
        assert (caught.value.field, caught.value.value) == ("members", value)


def test_a_single_file_needs_its_column() -> None:
    for arrays, field in (
        ({"losses": np.zeros(3)}, "member"),
        ({"losses": np.zeros(3), "member": np.array([0, 1, 2])}, "member"),
        ({"losses": np.zeros(3), "member": np.array([0, 1])}, "losses"),
    ):
        with pytest.raises(DataError) as caught:
            split_by_member(arrays, "one.npz")
        assert caught.value.field == field
