"""Files of a store as crashes, other versions and other programs leave them, and names that lead outside."""

import contextlib
import json
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import methods
import workloads
from harness import attacks
from harness.backends.sent import sent_settings
from harness.backends.status import Progress
from harness.plan.estimate import expected
from harness.plan.sweep_file import find_sweep
from harness.results.collect import collect
from harness.spec import PROTOCOL, Json, despelled, key_of, read_task
from harness.store import Store, heartbeat
from harness.store.files import checksum, dump
from harness.store.forgotten import FOLDER
from harness.store.journal import parse_sweep
from tests.campaigns.fuzz.ground import Ground
from tests.campaigns.fuzz.inputs import altered, files, names, nested, values
from tests.campaigns.fuzz.target import Target

SOURCE = Path(__file__).resolve().parents[2] / "data" / "store-of-protocol-0" / "tasks"
SWEEP = "fuzz"


def present() -> list[tuple[Json, Json]]:
    """(spec, result) of two trainings and two attacks, converted to the current protocol."""
    found = []
    for folder in sorted(SOURCE.glob("??/*")):
        spec, result = (json.loads((folder / f"{name}.json").read_text()) for name in ("spec", "result"))
        spec["task"]["protocol"] = PROTOCOL
        result["key"] = key_of(despelled(spec["task"]))
        found.append((spec, {**result, "checksum": checksum(result)}))
    return found


def record(tasks: list[tuple[Json, Json]]) -> Json:
    """The record of a sweep of these tasks."""
    entries = [{"key": result["key"], "kind": result["kind"], "cell": "c"} for _, result in tasks]
    return {"name": SWEEP, "backend": "local", "settings": {}, "cells": ["c"], "tasks": entries}


TASKS = present()
PLANNED = [read_task(spec) for spec, _ in TASKS]
TRAINING = next(task for task in TASKS if task[1]["kind"] == "train")
ATTACK = next(task for task in TASKS if task[0]["task"]["kind"] == "attack")


def fill(store: Store) -> None:
    """Add the tasks to a store under one sweep, and collect them."""
    for spec, result in TASKS:
        folder = store.folder(result["key"])
        folder.mkdir(parents=True)
        (folder / "spec.json").write_bytes(dump(spec))
        (folder / "result.json").write_bytes(dump(result))
    store.write_sweep(parse_sweep({"name": SWEEP, **record(TASKS)}))
    collect(store.path)


def text_of(value: Any) -> bytes:
    """A value as JSON, or as Python's repr if JSON cannot hold it."""
    return json.dumps(value).encode()


def look(store: Store) -> None:
    """What `privbench status` and `privbench plan` read."""
    progress = Progress.of(store, SWEEP)
    [progress.summary(), progress.warnings, progress.alarms, progress.failures, expected(PLANNED, store)]


@contextlib.contextmanager
def replaced(file: Path, content: bytes) -> Any:
    """Temporarily replace the content of a file."""
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(before)


def spec_file(ground: Ground, content: bytes) -> str:
    """A foreign `spec.json`: every reader reports it."""
    store, key = ground.store, ATTACK[1]["key"]
    with replaced(store.folder(key) / "spec.json", content):
        ground.survives(lambda: look(store))
        return ground.survives(lambda: store.task(key))


def result_file(ground: Ground, content: bytes) -> str:
    """A foreign `result.json`: ignored or read."""
    store, key = ground.store, TRAINING[1]["key"]
    with replaced(store.folder(key) / "result.json", content):
        return ground.survives(lambda: look(store))


def collected(ground: Ground, given: tuple[bytes, bytes]) -> str:
    """The same for the database: unreadable files are reported, and the rest is collected."""
    store = ground.store
    files_of = [store.folder(task[1]["key"]) / "result.json" for task in (TRAINING, ATTACK)]
    with replaced(files_of[0], given[0]), replaced(files_of[1], given[1]):
        return ground.survives(lambda: collect(store.path))


def sweep_record(ground: Ground, content: bytes) -> str:
    """A file of `sweeps/`."""
    store = ground.store
    with replaced(store.sweeps / f"{SWEEP}.json", content):
        ground.survives(lambda: sent_settings(store.sweep(SWEEP)))
        return ground.survives(lambda: look(store))


def forgotten_record(ground: Ground, content: bytes) -> str:
    """A file of `forgotten/`."""
    file = ground.store.path / FOLDER / f"{TRAINING[1]['key']}.json"
    file.parent.mkdir(exist_ok=True)
    file.touch()
    with replaced(file, content):
        return ground.survives(lambda: collect(ground.store.path))


def store_file(ground: Ground, content: bytes) -> str:
    """`store.json`."""
    with replaced(ground.store.path / "store.json", content):
        return ground.survives(lambda: Store.open(ground.store.path))


def beat_file(ground: Ground, content: bytes) -> str:
    """A heartbeat, read while another process writes it."""
    folder = ground.store.folder(TRAINING[1]["key"])
    (folder / "heartbeat").write_bytes(content)
    (folder / "result.json").rename(folder / "kept.json")  # a task that has ended needs no heartbeat
    try:
        ground.survives(lambda: look(ground.store))
        return ground.survives(lambda: heartbeat(folder))
    finally:
        (folder / "kept.json").rename(folder / "result.json")


def named(ground: Ground, name: str) -> str:
    """A name in place of a sweep, a task, a member or a store."""
    store = ground.store
    ends = {
        ground.survives(lambda: Progress.of(store, name)),
        ground.survives(lambda: store.find(name)),
        ground.survives(lambda: find_sweep(name)),
        ground.survives(lambda: Store.open(Path(name))),
        *(ground.survives(partial(family.get, name)) for family in FAMILIES),
    }
    return min(ends)


FAMILIES = (methods.family, workloads.family, attacks.family)
DEEP = nested("[", "]", 100_000).encode()


def summed(value: Any) -> bytes:
    """A result with a valid checksum, if it is an object."""
    if isinstance(value, dict):
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            value = {**value, "checksum": checksum(value)}
    return text_of(value)


def results(good: Json) -> st.SearchStrategy[bytes]:
    """Altered results, most of them with a valid checksum."""
    changed = altered(good)
    return changed.map(summed) | changed.map(summed) | changed.map(text_of) | files(dump(good))


BEAT = {"pid": 1, "host": "h", "job": None, "time": 4e9, "phase": "train", "done": 1, "total": 2}
RECORD = {
    "key": TRAINING[1]["key"],
    "kind": "cell",
    "forgotten": "2026-01-02T03:04:05+00:00",
    "why": "a reason",
}
deep = st.just(DEEP)

TARGETS = (
    Target(
        "spec file",
        altered(ATTACK[0]).map(text_of) | files(dump(ATTACK[0])) | deep,
        spec_file,
        dump(ATTACK[0]),
        fill=fill,
    ),
    Target("result file", results(TRAINING[1]) | deep, result_file, dump(TRAINING[1]), fill=fill),
    Target(
        "collected results",
        st.tuples(results(TRAINING[1]), results(ATTACK[1])),
        collected,
        (dump(TRAINING[1]), dump(ATTACK[1])),
        weight=1,
        fill=fill,
    ),
    Target(
        "sweep record",
        altered(record(TASKS)).map(text_of) | files(dump(record(TASKS))) | deep,
        sweep_record,
        dump(record(TASKS)),
        fill=fill,
    ),
    Target(
        "forgotten record",
        altered(RECORD).map(text_of) | files(text_of(RECORD)) | deep,
        forgotten_record,
        text_of(RECORD),
        fill=fill,
    ),
    Target(
        "store file", values.map(text_of) | files(b'{"protocol": 1}') | deep, store_file, b'{"protocol": 1}'
    ),
    Target(
        "heartbeat",
        altered(BEAT).map(text_of) | files(text_of(BEAT)) | deep,
        beat_file,
        text_of(BEAT),
        fill=fill,
    ),
    Target("names", names | st.text(alphabet="./~\\\0ab", max_size=30), named, SWEEP, fill=fill),
)
