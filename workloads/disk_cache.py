"""A cache of answers on disk: one small JSON file each, shared by processes."""

import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


def default_folder(name: str) -> Path:
    """$XDG_CACHE_HOME or ~/.cache, then privbench and the name of the cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "privbench" / name


def read_cached(folder: Path, question: Any) -> Any:
    """The cached JSON for this question; None if it is missing or damaged."""
    try:
        entry = json.loads(_path(folder, question).read_text(encoding="utf-8"))
        whole = entry["checksum"] == digest([entry["question"], entry["answer"]])
        if whole and entry["question"] == question:
            return entry["answer"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def write_cached(folder: Path, question: Any, solution: Any) -> None:
    """Cache a solution atomically; a folder that cannot be written is only a warning."""
    entry = {"question": question, "answer": solution, "checksum": digest([question, solution])}
    path = _path(folder, question)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=folder, suffix=".part", delete=False, encoding="utf-8"
        ) as aside:
            json.dump(entry, aside)
        Path(aside.name).replace(path)
    except OSError as error:
        log.warning("an answer cannot be cached: %s", error)


def _path(folder: Path, question: Any) -> Path:
    return folder / f"{digest(question)[:32]}.json"


def digest(value: Any) -> str:
    """The SHA-256 of a plain value's JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
