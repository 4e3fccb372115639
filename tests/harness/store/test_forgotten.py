"""Records of forgotten results: written and deleted whole; a damaged one hides nothing."""

import json
from pathlib import Path

import pytest

from harness.spec import Task
from harness.store import Store
from harness.store.forgotten import (
    Forgotten,
    delete_forgotten,
    is_forgotten,
    read_forgotten,
    write_forgotten,
)
from tests.harness.simulated import attack, cell

CELL = cell("digits-mlp", "sgd")
RECORD = Forgotten(key=CELL.key, kind="cell", forgotten="2026-01-02T03:04:05+00:00", why="wrong data")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def test_a_record_is_kept_until_it_is_deleted(store: Store) -> None:
    assert read_forgotten(store) == {}, "an older store has no folder"
    write_forgotten(store, RECORD)
    assert read_forgotten(store) == {CELL.key: RECORD}
    Store.open(store.path)
    delete_forgotten(store, CELL.key)
    delete_forgotten(store, CELL.key)
    assert read_forgotten(store) == {}


def test_a_cell_goes_with_its_tasks_and_an_attack_alone(store: Store) -> None:
    lira = attack(CELL, "lira")
    whole, alone = {CELL.key: RECORD}, {lira.key: RECORD.model_copy(update={"key": lira.key})}
    train = Task("train", CELL, index=1)
    assert is_forgotten(whole, lira) and is_forgotten(whole, train)
    assert is_forgotten(alone, lira) and not is_forgotten(alone, train)
    assert not is_forgotten(whole, Task("train", cell("digits-mlp", "dp-sgd")))


BAD_TIME = b'{"key": "%s", "kind": "cell", "forgotten": "0001-01-01T00:00:00+23:59"}' % CELL.key.encode()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"key": "../../x"}', b"\xff", BAD_TIME, None])
def test_a_damaged_record_is_ignored_and_reported(store: Store, content: bytes | None) -> None:
    write_forgotten(store, RECORD)
    file = store.path / "forgotten" / f"{CELL.key}.json"
    altered = json.loads(file.read_bytes()) | {"why": "another reason"}
    file.write_bytes(json.dumps(altered).encode() if content is None else content)
    broken: list[Path] = []
    assert read_forgotten(store, broken) == {}
    assert broken == [file]


def test_a_record_under_another_name_is_ignored(store: Store) -> None:
    write_forgotten(store, RECORD)
    file = store.path / "forgotten" / f"{CELL.key}.json"
    file.rename(file.with_name(f"{'0' * 32}.json"))
    assert read_forgotten(store) == {}


def test_a_key_cannot_lead_out_of_the_store() -> None:
    with pytest.raises(ValueError, match="32 hexadecimal"):
        Forgotten(key="../../store", kind="cell", forgotten="")
