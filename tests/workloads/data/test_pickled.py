"""Pickles are read as data: the published ones parse, malicious ones are refused and run nothing."""

import io
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.data.pickled import read_dict


def published(batch: dict[Any, Any]) -> bytes:
    """As the publisher wrote it: protocol 2, numpy 1's module names."""
    return pickle.dumps(batch, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


@pytest.mark.parametrize("write", [published, lambda batch: pickle.dumps(batch, protocol=4)])
def test_arrays_and_lists_come_through(write: Any) -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    found = read_dict(write({b"data": pixels, "labels": [1, 2, 3], b"batch_label": b"one"}))
    assert np.array_equal(found["data"], pixels)
    assert found["labels"] == [1, 2, 3]
    assert found["batch_label"] == b"one"


def test_fortran_order_and_byte_order_are_kept() -> None:
    array = np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3))
    assert np.array_equal(read_dict(published({"data": array}))["data"], array)


@pytest.mark.parametrize(
    "content", [b"}r\x88\x88\x20\x20.", b"}p538970248\n.", b"\x96" + b"\xff" * 4 + bytes(4) + b"."]
)
def test_a_few_bytes_do_not_reserve_gigabytes(content: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"a memo of \d{9} objects|expected 4294967295 bytes"):
        read_dict(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"


class Runs:
    """Unpickled by pickle.load, makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    bomb = pickle.dumps({"data": Runs(tmp_path / "made")}, protocol=protocol)
    with pytest.raises(ValueError, match=r"imports posix\.mkdir"):
        read_dict(bomb)
    assert not (tmp_path / "made").exists()
    pickle.load(io.BytesIO(bomb))
    assert (tmp_path / "made").exists(), "the pickle is harmless, the test shows nothing"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (published({"data": np.array([None])}), "an array of type O8"),
        (published({"data": np.zeros(2, [("a", "u1")])}), "an array of type V1"),
        (pickle.dumps([1, 2]), "a pickle of a list"),
        (pickle.dumps({"data": 3})[:-3], "truncated"),
        (b"c_codecs\nencode\n(Vab\nVrot13\ntR.", "bytes encoded as rot13"),
    ],
)
def test_other_things_are_refused(content: bytes, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        read_dict(content)


@given(st.binary(max_size=60), st.integers(0, 200))
def test_damaged_pickles_end_in_an_error_of_ours(noise: bytes, at: int) -> None:
    good = published({"data": np.arange(8, dtype=np.uint8), "labels": [1, 2]})
    for content in (noise, good[:at] + noise + good[at + len(noise) :]):
        try:
            assert isinstance(read_dict(content), dict)
        except ValueError:
            continue
