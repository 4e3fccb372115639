"""Records of sweeps, heartbeats and purges: read as written, refused if they have another shape."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from harness.spec import Cell, Plugin, Task, Timing
from harness.store.journal import (
    Heartbeat,
    Purged,
    SweepEntry,
    SweepRecord,
    parse_heartbeat,
    parse_sweep,
)
from tests.harness.simulated import sweep_record

ENTRY = {"key": "0" * 32, "kind": "train", "cell": "c"}
BEAT = {"time": 1.0, "phase": "train", "done": 1, "total": 2}
CELL = Cell(Plugin("w", "1"), 5, Plugin("sgd", "1"), {}, seed=0)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"tasks": None},
        {"tasks": [{**ENTRY, "key": "../../../elsewhere"}]},
        {"tasks": [{**ENTRY, "key": "0" * 31}]},
        {"tasks": [{**ENTRY, "key": "0" * 32 + "\n"}]},
        {"tasks": [{**ENTRY, "kind": "walk"}]},
        {"tasks": [1]},
        {"tasks": [], "backend": []},
        {"tasks": [], "settings": 3},
    ],
)
def test_a_sweep_of_another_shape_is_refused(content: dict[str, Any]) -> None:
    assert parse_sweep({"tasks": [ENTRY]}).tasks == [SweepEntry(key="0" * 32, kind="train", cell="c")]
    with pytest.raises(ValidationError):
        parse_sweep(content)


def test_a_sweep_is_read_as_it_was_written() -> None:
    bench = Task("bench", CELL, timing=Timing({"sgd": CELL}, 64, {}))
    given = sweep_record("both", Task("train", CELL), bench, settings={"slots": 2}, cells=[CELL.key])
    assert parse_sweep(json.loads(json.dumps(given.model_dump()))) == given
    assert [entry.cell for entry in given.tasks] == [CELL.key, None], "a bench belongs to no cell"


def test_a_record_of_before_there_were_backends_is_read() -> None:
    record = parse_sweep({"tasks": [ENTRY], "checksum": "of an older version"})
    assert (record.name, record.backend, record.settings, record.cells) == ("", None, {}, [])


@pytest.mark.parametrize("content", [None, [], {}, 3, "text", *({**BEAT, name: None} for name in BEAT)])
def test_a_heartbeat_of_another_shape_is_refused(content: Any) -> None:
    with pytest.raises(ValidationError):
        parse_heartbeat(content)


def test_a_heartbeat_is_read_as_written_and_may_lack_fields() -> None:
    whole = Heartbeat(time=1.5, pid=3, host="here", job="7_1", phase="train", done=1, total=2)
    assert parse_heartbeat(json.loads(whole.model_dump_json())) == whole
    short = parse_heartbeat(BEAT)
    assert (short.pid, short.host, short.job, short.done) == (None, None, None, 1)


@pytest.mark.parametrize(
    ("record", "name"),
    [
        (SweepRecord(name="one", tasks=[]), "name"),
        (SweepEntry(key="0" * 32, kind="train", cell="c"), "key"),
        (parse_heartbeat(BEAT), "done"),
        (Purged(files=["a"]), "files"),
    ],
)
def test_a_record_is_immutable(record: Any, name: str) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(record, name, getattr(record, name))


def test_two_records_share_no_default() -> None:
    one, two = SweepRecord(tasks=[]), SweepRecord(tasks=[])
    one.settings["slots"] = 1
    assert two.settings == {} and SweepRecord(tasks=[]).settings == {}
