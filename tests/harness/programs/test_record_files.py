"""Files of records: what is read, and what a program gets."""

from pathlib import Path

import numpy as np
import pytest

from harness.programs.given_records import Arrays
from harness.programs.record_files import read_given, write_asked, write_members
from workloads.errors import DataError


def test_npz_gives_the_arrays(arrays: Arrays, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=False, **arrays)
    found, features = read_given(tmp_path / "a.npz")
    assert features is None
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_csv_keeps_every_digit_and_the_order_of_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("b,y,part,a\n0.1,1,pool,3\n1e-300,0,test,4\n0.2,0,pool,5\n")
    found, features = read_given(tmp_path / "a.csv")
    assert features == ["b", "a"]
    assert found["x"].tolist() == [[0.1, 3], [0.2, 5]] and found["y"].tolist() == [1, 0]
    assert found["test_x"].tolist() == [[1e-300, 4]] and found["test_y"].tolist() == [0]
    write_members(tmp_path / "m.csv", found["x"], found["y"].astype(np.int64), features)
    write_asked(tmp_path / "r.csv", found["test_x"], features)
    assert (tmp_path / "m.csv").read_text() == "y,b,a\n1,0.1,3.0\n0,0.2,5.0\n"
    assert (tmp_path / "r.csv").read_text() == "b,a\n1e-300,4.0\n"


@pytest.mark.parametrize(
    ("name", "content", "field", "value"),
    [
        ("a.npz", b"", "--data", "EOFError"),
        ("a.csv", b"a,y\n1,2\n", "--data", ("part",)),
        ("a.csv", b"a,y,part\n1,2,train\n", "part", "train"),
        ("a.csv", b"a,y,part\nred,2,pool\n", "--data", "ValueError"),
        ("a.parquet", b"PAR1", "--data", ".parquet"),
    ],
)
def test_files_that_are_none(name: str, content: bytes, field: str, value: object, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as refused:
        read_given(tmp_path / name)
    assert (refused.value.field, refused.value.value) == (field, value)


def test_a_file_without_a_part(arrays: Arrays, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=False, x=arrays["x"], y=arrays["y"])
    with pytest.raises(DataError) as refused:
        read_given(tmp_path / "a.npz")
    assert refused.value.value == ("test_x", "test_y")
