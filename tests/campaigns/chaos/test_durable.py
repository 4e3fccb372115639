"""Acknowledged results survive a power cut: the order of writing, syncing and renaming, call by call."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.backends.base import Job, Settings
from harness.backends.local import Local
from harness.backends.machine import queue as local
from harness.backends.slurm.array_record import Record
from harness.jobs.checkpoint import write_checkpoint
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from tests.harness.simulated import ended, sweep_record

TASK = Task("train", Cell(Plugin("w", "1"), 5, Plugin("m", "1"), {"lr": 0.1}, 0))
Event = tuple[str, str, str]
"""(call, path, source path)."""


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """Every call that creates, writes, syncs or renames a file, in order."""
    seen: list[Event] = []
    real = {name: getattr(os, name) for name in ("fsync", "sync", "rename", "replace", "link")}
    real_open = io.open

    def note_open(file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if isinstance(file, str | os.PathLike) and set(mode) & set("wxa+"):
            seen.append(("open", os.fspath(file), ""))
        return real_open(file, mode, *rest, **more)

    def note_fsync(handle: int) -> None:
        seen.append(("fsync", str(Path(f"/proc/self/fd/{handle}").readlink()), ""))
        real["fsync"](handle)

    def note_sync() -> None:
        seen.append(("sync", "", ""))
        real["sync"]()

    def note_name(name: str) -> Any:
        def call(source: Any, target: Any, **more: Any) -> None:
            real[name](source, target, **more)
            seen.append(("name", os.fspath(target), os.fspath(source)))

        return call

    monkeypatch.setattr(io, "open", note_open)
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "sync", note_sync)
    for name in ("rename", "replace", "link"):
        monkeypatch.setattr(os, name, note_name(name))
    yield seen
    monkeypatch.undo()


@pytest.fixture
def written(events: list[Event], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Everything that a store acknowledges, written once: path by kind."""
    monkeypatch.setattr(local, "start_supervisor", lambda store: None)
    store = Store.open(tmp_path / "store", create=True)
    store.add(TASK)
    store.write_sweep(sweep_record("sweep"))
    store.publish(ended(TASK, "failed", reason="error"))
    artefact = store.write_artefact(TASK.key, "signals.safetensors", b"content")
    store.publish(ended(TASK, artefacts={"signals": artefact}))
    Local().submit([Job((TASK.key,))], store, "sweep", Settings())
    (identity,) = (file.stem for file in store.queue.glob("*.json"))
    Record("sweep.1", "sweep", ((TASK.key,),), {}, Settings(), 0.0).write(store)
    folder = store.folder(TASK.key)
    (folder / "checkpoint").mkdir()
    write_checkpoint(folder / "checkpoint" / "train.safetensors", {"x": torch.ones(2)})
    files = {
        "store": store.path / "store.json",
        "sweep": store.sweeps / "sweep.json",
        "result": folder / "result.json",
        "artefact": folder / artefact.file,
        "submission": store.queue / f"{identity}.json",
        "record": store.path / "slurm" / "sweep.1.json",
        "checkpoint": folder / "checkpoint" / "train.safetensors",
        "spec": folder / "spec.json",
    }
    return {name: str(file) for name, file in files.items()}


NAMES = ["store", "sweep", "result", "artefact", "submission", "record", "checkpoint", "spec"]


def named(events: list[Event], path: str) -> list[tuple[int, str]]:
    """(position, source) of the call that gave a path its content."""
    return [(when, source) for when, (what, on, source) in enumerate(events) if (what, on) == ("name", path)]


@pytest.mark.parametrize("name", NAMES)
def test_a_published_file_is_never_written_under_its_own_name(
    events: list[Event], written: dict[str, str], name: str
) -> None:
    assert ("open", written[name], "") not in events
    assert named(events, written[name])


@pytest.mark.parametrize("name", NAMES[:-1])
def test_content_is_on_disk_before_it_gets_its_name_and_the_name_before_it_is_relied_on(
    events: list[Event], written: dict[str, str], name: str
) -> None:
    times = named(events, written[name])
    assert len(times) == (2 if name == "result" else 1)
    for when, source in times:
        assert ("fsync", source, "") in events[:when]
        assert ("fsync", str(Path(written[name]).parent), "") in events[when:]


def test_specs_are_on_disk_before_anything_is_sent(events: list[Event], written: dict[str, str]) -> None:
    """One sync for all specs: one for each would take minutes for thousands."""
    ((spec, _),) = named(events, written["spec"])
    ((submission, _),) = named(events, written["submission"])
    assert ("sync", "", "") in events[spec:submission]
