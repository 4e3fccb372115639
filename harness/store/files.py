"""Files that survive crashes: written atomically, JSON with its own checksum."""

import contextlib
import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from harness.spec import Json


def parse_json(raw: bytes) -> Any:
    """Parse JSON; the only error is ValueError."""
    # Pydantic's parser takes a third of the time of json's, which dominated `status`. It rejects a little
    # more, such as lone surrogates, which a file name in a message may contain.
    with contextlib.suppress(ValueError):
        return from_json(raw)
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def checksum(result: Json) -> str:
    """SHA-256 of a JSON object without its `checksum` field."""
    body = {key: value for key, value in result.items() if key != "checksum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def dump(content: Any) -> bytes:
    """Encode as indented JSON; ValueError for NaN and infinities."""
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def dump_checked(content: Json) -> bytes:
    """Encode as JSON with a `checksum` field, for `parse_checked`."""
    return dump({**content, "checksum": checksum(content)})


def parse_checked(raw: bytes) -> Json:
    """Parse JSON and verify its checksum; ValueError if damaged. Old files have none and are not verified."""
    content = parse_json(raw)
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, found a {type(content).__name__}")
    stated = content.pop("checksum", None)
    if stated is not None and stated != checksum(content):
        raise ValueError("its content does not match its checksum")
    return content


def write_atomic(file: Path, content: bytes) -> None:
    """Write to a temporary file, fsync, rename: readers see the old content or the new, never a mix."""
    aside = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
    try:
        write_synced(aside, content)
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(file.parent)


def write_synced(file: Path, content: bytes) -> None:
    """Write and fsync, so that a full disk is an error here and not later."""
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that a rename inside it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
