"""Checks of the files in a task's folder; a file that fails its check counts as damaged."""

from pathlib import Path
from typing import Any

from harness.spec import Json
from harness.store.files import parse_json
from harness.store.journal import Purged

PURGED = "purged.json"
"""In a task's folder: which of its artefacts were deleted on purpose."""


def purged_files(folder: Path) -> list[str]:
    """List the artefacts of a task that were deleted on purpose (harness/store/purge.py)."""
    try:
        return Purged.model_validate(parse_json((folder / PURGED).read_bytes())).files
    except (OSError, ValueError):
        return []


def is_spec(content: Any) -> bool:
    """Whether parsed JSON has the shape of a `spec.json`."""
    match content:
        case {
            "task": {"kind": "bench", "workload": {"name": str()}},
            "notes": {"label": str(), "cell": None},
        }:
            return True
        case {
            "task": {"kind": kind, "workload": {"name": str()}, "method": {"name": str()}} as task,
            "notes": {"label": str(), "cell": str()},
        }:
            return kind == "train" or (kind == "attack" and _is_named(task.get("attack")))
    return False


def _is_named(member: Json | None) -> bool:
    match member:
        case {"name": str()}:
            return True
    return False
