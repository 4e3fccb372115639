"""The JSON files of a store, told from what crashes, other versions and other people leave there.

Whoever reads a file asks here whether it has the shape that the rest of the program relies on; what has
not counts as damaged. Only what is used without a further look is checked.
"""

import re
from pathlib import Path
from typing import Any

from harness.spec import Json
from harness.store.files import parse_json

KEY = re.compile(r"[0-9a-f]{32}")
PURGED = "purged.json"
"""In a task's folder: which of its artefacts were deleted on purpose."""


def purged_files(folder: Path) -> list[str]:
    """The artefacts of a task that were deleted on purpose (harness/store/purge.py)."""
    try:
        content = parse_json((folder / PURGED).read_bytes())
    except (OSError, ValueError):
        return []
    match content:
        case {"files": list(files)}:
            return files
    return []


def is_spec(content: Any) -> bool:
    """Whether this is a `spec.json`."""
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


def is_result(content: Any) -> bool:
    """Whether this is a `result.json`: its outcome, and artefacts that lie in its own folder."""
    match content:
        case {"key": str(), "kind": str(), "status": "done"} | {
            "key": str(),
            "kind": str(),
            "status": "failed",
            "reason": str(),
        }:
            told = content.get("warnings", [])
            audit = content.get("audit")
            return (
                _is_artefacts(content.get("artefacts"))
                and isinstance(told, list)
                and all(isinstance(text, str) for text in told)
                and (audit is None or isinstance(audit, dict))
            )
    return False


def is_sweep(content: Any) -> bool:
    """Whether this is a file of `sweeps/`: tasks by keys that are names in the store and nowhere else."""
    match content:
        case {"tasks": list(tasks)}:
            how = (content.get("backend", ""), content.get("settings", {}))
            return isinstance(how[0], str) and isinstance(how[1], dict) and all(map(_is_entry, tasks))
    return False


def is_beat(content: Any) -> bool:
    """Whether this is a `heartbeat`."""
    match content:
        case {"time": int() | float(), "phase": str(), "done": int(), "total": int()}:
            return True
    return False


def _is_entry(entry: Any) -> bool:
    match entry:
        case {"key": str(key), "kind": str(), "cell": str()}:
            return KEY.fullmatch(key) is not None
    return False


def _is_named(member: Json | None) -> bool:
    match member:
        case {"name": str()}:
            return True
    return False


def _is_artefacts(artefacts: Any) -> bool:
    return isinstance(artefacts, dict) and all(map(_is_artefact, artefacts.values()))


def _is_artefact(artefact: Any) -> bool:
    match artefact:
        case {"file": str(file), "bytes": int(), "sha256": str()}:
            return file not in ("", ".", "..") and "/" not in file and "\0" not in file
    return False
