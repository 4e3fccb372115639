"""Delete artefacts that reveal individual members, keep the results: `privbench purge --artefacts`.

Weights, signals, scores, reconstructed images and checkpoints of ended tasks are deleted. Specs, results,
step times and logs stay, and with them every row. Deletions are first noted in the task's folder, so that
its result stays valid; an attack that needs a purged model has it retrained (harness/plan/plan.py).
"""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.store import Store, heartbeat
from harness.store.checks import PURGED, purged_files
from harness.store.files import dump, sync_folder, write_atomic
from harness.store.forgotten import is_forgotten, read_forgotten
from harness.store.journal import Purged
from harness.store.locks import locked
from harness.store.result import Result
from workloads.errors import StoreError

KEPT_FILES = {"spec.json", "result.json", "log.txt", PURGED}
KEPT_ARTEFACTS = ("steps",)
"""Step times: rows are made from them, and they contain no record, score or weight."""
CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Holding:
    """The files of one ended task that a purge deletes."""

    key: str
    artefacts: tuple[str, ...]
    """Files that its result lists; noted as purged."""
    files: tuple[Path, ...]
    """All files to delete: the artefacts, leftovers of crashed writers, and checkpoints."""
    bytes: int


def holdings(store: Store, sweep: str | None = None, forgotten: bool = False) -> list[Holding]:
    """List what a purge would delete, of one sweep or of the whole store; StoreError if a task is running.

    With `forgotten` only that of forgotten results.
    """
    keys = store.keys() if sweep is None else {entry.key for entry in store.sweep(sweep).tasks}
    if forgotten:
        keys = _forgotten(store, keys)
    found = (_holding(store, key) for key in sorted(keys))
    return [each for each in found if each is not None]


def purge(store: Store, found: Iterable[Holding]) -> int:
    """Delete the holdings and return the bytes freed; safe to repeat after a kill."""
    return sum(_purge_task(store, each) for each in found)


def _forgotten(store: Store, keys: set[str]) -> set[str]:
    records, found = read_forgotten(store), set()
    for key in keys if records else ():
        with contextlib.suppress(StoreError):  # damaged: it is not known to be forgotten
            if is_forgotten(records, store.task(key)):
                found.add(key)
    return found


def _holding(store: Store, key: str) -> Holding | None:
    folder = store.folder(key)
    # A link could lead out of the store to files that are not ours to delete.
    if folder.is_symlink() or folder.parent.is_symlink():
        return None
    result = store.result(key, verify=False)
    if result is None:
        return None
    if heartbeat(folder) is not None:
        raise StoreError(f"task {key} is running: wait for it to end, then purge")
    listed = {each.file for each in result.artefacts.values()}
    files = [entry for entry in os.scandir(folder) if entry.name not in _kept(result) and _is_leaf(entry)]
    files += _checkpoints(folder)
    if not files:
        return None
    size = sum(entry.stat(follow_symlinks=False).st_size for entry in files)
    gone = tuple(sorted(listed & {entry.name for entry in files}))
    return Holding(key, gone, tuple(Path(entry.path) for entry in files), size)


def _kept(result: Result) -> set[str]:
    steps = (result.artefacts[name].file for name in KEPT_ARTEFACTS if name in result.artefacts)
    return {*KEPT_FILES, *steps}


def _is_leaf(entry: "os.DirEntry[str]") -> bool:
    return entry.is_symlink() or entry.is_file(follow_symlinks=False)


def _checkpoints(folder: Path) -> list["os.DirEntry[str]"]:
    checkpoint = folder / CHECKPOINT
    if checkpoint.is_symlink() or not checkpoint.is_dir():
        return []
    return [entry for entry in os.scandir(checkpoint) if _is_leaf(entry)]


def _purge_task(store: Store, holding: Holding) -> int:
    folder = store.folder(holding.key)
    with locked(folder):
        if holding.artefacts:
            noted = sorted({*purged_files(folder), *holding.artefacts})
            note = Purged(files=noted, purged=datetime.now(UTC).isoformat())
            write_atomic(folder / PURGED, dump(note.model_dump()))  # before the first file is deleted
        for file in holding.files:
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # absent, or it holds other files
            (folder / CHECKPOINT).rmdir()
        sync_folder(folder)
    return holding.bytes
