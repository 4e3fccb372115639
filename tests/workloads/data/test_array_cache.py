"""Cached arrays: the same bytes, never a partial file, never a wrong one."""

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from workloads.data.array_cache import Arrays, cached, digest
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf

KEY = "0123456789abcdef"


def arrays() -> Arrays:
    random = np.random.default_rng(0)
    return {
        "x": random.integers(256, size=(5, 3), dtype=np.uint8),
        "y": np.arange(5),
        "half": random.random((2, 2)).astype(np.float16),
        "none": np.empty((0, 4), np.float32),
        "turned": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    }


def never() -> Arrays:
    raise AssertionError("it was recomputed")


def test_made_once_then_mapped(shelf: "Shelf") -> None:
    first = cached("thing", KEY, arrays)
    again = cached("thing", KEY, never)
    for name, expected in arrays().items():
        for found in (first[name], again[name]):
            assert np.array_equal(found, expected)
            assert found.dtype == expected.dtype
    assert isinstance(again["x"], np.memmap)
    assert len(shelf.kept()) == 1


def test_torch_takes_them_and_writing_stays_in_the_process(shelf: "Shelf") -> None:
    tensor = torch.from_numpy(cached("thing", KEY, arrays)["x"])
    tensor.zero_()
    assert np.array_equal(cached("thing", KEY, never)["x"], arrays()["x"])


def test_another_key_is_another_file(shelf: "Shelf") -> None:
    cached("thing", KEY, arrays)
    assert cached("thing", KEY[::-1], lambda: {"x": np.ones(2)})["x"].tolist() == [1, 1]
    assert len(shelf.kept()) == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "header", "other"])
def test_a_damaged_file_is_rebuilt(shelf: "Shelf", damage: str, caplog: pytest.LogCaptureFixture) -> None:
    cached("thing", KEY, arrays)
    [file] = shelf.kept()
    content = file.read_bytes()
    wrong = {
        "flipped": content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
        "cut": content[:-10],
        "empty": b"",
        "header": b"\xff" * 8 + content[8:],
        "other": b"\x02" + bytes(7) + b"[]",
    }
    file.write_bytes(wrong[damage])
    with caplog.at_level(logging.WARNING):
        again = cached("thing", KEY, arrays)
    assert digest(again) == digest(arrays())
    assert "is damaged and will be rebuilt" in caplog.text
    assert digest(cached("thing", KEY, never)) == digest(arrays())


def test_an_error_keeps_nothing(shelf: "Shelf") -> None:
    def broken() -> Arrays:
        raise BenchError("a wrong file")

    with pytest.raises(BenchError, match="a wrong file"):
        cached("thing", KEY, broken)
    assert shelf.kept() == []


def test_a_folder_that_cannot_be_written(shelf: "Shelf", caplog: pytest.LogCaptureFixture) -> None:
    shelf.cache.write_text("a file where the folder should be")
    assert digest(cached("thing", KEY, arrays)) == digest(arrays())
    assert "cannot be cached" in caplog.text


def test_the_digest_sees_names_types_and_shapes() -> None:
    base = {"a": np.arange(4, dtype=np.uint8)}
    others: list[Arrays] = [
        {"b": np.arange(4, dtype=np.uint8)},
        {"a": np.arange(4, dtype=np.int8)},
        {"a": np.arange(4, dtype=np.uint8).reshape(2, 2)},
        {"a": np.arange(1, 5, dtype=np.uint8)},
        {},
    ]
    assert len({digest(each) for each in [base, *others]}) == 6
    assert digest({"a": base["a"], "b": base["a"]}) == digest({"b": base["a"], "a": base["a"]})


RACE = """
import time
import numpy as np
from workloads.data.array_cache import cached, digest

def make():
    time.sleep(0.2)
    return {"x": np.full((500, 1000), 7, np.uint8)}

for turn in range(8):
    print(digest(cached("thing", f"key-{turn}", make)))
"""


@pytest.mark.slow
def test_two_processes_at_once(shelf: "Shelf") -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120) for process in started]
    expected = digest({"x": np.full((500, 1000), 7, np.uint8)})
    for out, err in answers:
        assert out.split() == [expected] * 8, err
    assert len(shelf.kept()) == 8, "a file was left aside"
