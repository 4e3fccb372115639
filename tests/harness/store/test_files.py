import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec import Cell, Plugin, Task
from harness.store import Store
from harness.store.checks import PURGED, is_spec, purged_files
from harness.store.files import dump, parse_json
from workloads.errors import StoreError

CELL = Cell(Plugin("w", "1"), 5, Plugin("m", "1"), {}, seed=0)
TASKS = (Task("train", CELL), Task("attack", CELL, models=1, attack=Plugin("loss", "1")))
Deep = st.SearchStrategy[Any]


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5_000])
def test_invalid_json_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(raw)


def nested(inner: Deep) -> Deep:
    return st.lists(inner) | st.dictionaries(st.text(), inner)


@pytest.mark.slow
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), nested)
)
def test_a_document_is_read_as_written_to_the_bit(content: Any) -> None:
    assert repr(parse_json(json.dumps(content).encode())) == repr(content)


@pytest.mark.parametrize("text", ["caf\udce9.txt", "\ud800", "\U0001f600", "1" * 300])
def test_half_a_character_and_long_numbers_are_read_too(text: str) -> None:
    assert parse_json(json.dumps(text).encode()) == text
    if text.isdigit():
        assert parse_json(text.encode()) == int(text)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_a_spec_is_known_by_its_shape(task: Task) -> None:
    spec = task.file()
    assert is_spec(spec)
    for part in ("workload", "method", "kind"):
        assert not is_spec({**spec, "task": {**spec["task"], part: 3}})
    assert not is_spec({**spec, "notes": {}})
    assert not is_spec({**spec, "task": None})
    assert is_spec({**spec, "task": {**spec["task"], "attack": 3}}) == (task.kind == "train")


@pytest.mark.parametrize("name", ["../../bystander", "..", "/etc/passwd", "n" * 5_000, "nul\0", "", "*"])
def test_no_name_of_a_sweep_or_task_leads_out_of_the_store(tmp_path: Path, name: str) -> None:
    store = Store.open(tmp_path / "store", create=True)
    (tmp_path / "bystander.json").write_bytes(dump({"tasks": []}))
    with pytest.raises(StoreError, match="no sweep"):
        store.sweep(name)
    with pytest.raises(StoreError, match="no task begins"):
        store.find(name)


def test_a_path_that_no_store_can_have_is_reported() -> None:
    with pytest.raises(StoreError, match="cannot be a store"):
        Store.open("n" * 5_000)


def test_purged_files_are_those_of_the_note(tmp_path: Path) -> None:
    assert purged_files(tmp_path) == []
    (tmp_path / PURGED).write_text('{"files": ["a", "b"]}')
    assert purged_files(tmp_path) == ["a", "b"]
