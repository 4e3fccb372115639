"""Bugs that tests must catch: each function injects one into the calling process (injected.py)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from harness.backends.machine import queue as local
from harness.backends.slurm import array_record
from harness.jobs import checkpoint, run
from harness.store import files, store


def forget_to_sync_files() -> None:
    """A file may be renamed before its content is on disk."""

    def write(file: Path, content: bytes) -> None:
        file.write_bytes(content)

    for module in (files, store):
        module.write_synced = write  # type: ignore[attr-defined]


def forget_to_sync_folders() -> None:
    """A rename may be relied on before it is on disk."""
    for module in (files, store):
        module.sync_folder = lambda folder: None  # type: ignore[attr-defined]


def write_in_place() -> None:
    """Readers, and processes after a crash, see half a file."""

    def write(file: Path, content: bytes) -> None:
        files.write_synced(file, content)
        files.sync_folder(file.parent)

    for module in (files, store, checkpoint, local, array_record):
        module.write_atomic = write  # type: ignore[attr-defined]


def share_one_stream() -> None:
    """The draws of one part of a method change those of another."""
    own = run.Run.generator

    def generator(self: run.Run, name: str, device: torch.device | None = None) -> torch.Generator:
        return own(self, "one for all")

    run.Run.generator = generator  # type: ignore[method-assign]


def forget_a_stream() -> None:
    """After a kill, one generator restarts from its seed."""
    write = checkpoint.write_checkpoint

    def partly(file: Path, content: Mapping[str, Any]) -> None:
        kept = {name: each for name, each in content["streams"].items() if name != "noise"}
        write(file, {**content, "streams": kept})

    run.write_checkpoint = partly  # type: ignore[attr-defined]


BUGS: dict[str, Callable[[], None]] = {
    "no fsync of files": forget_to_sync_files,
    "no fsync of folders": forget_to_sync_folders,
    "written in place": write_in_place,
    "one random stream for all names": share_one_stream,
    "one generator missing from the checkpoint": forget_a_stream,
}
