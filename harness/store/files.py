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
    """What these bytes say; ValueError where they are not JSON, and nothing else."""
    # Pydantic's reader takes a third of the time of json's, which was most of the time of `status`. It
    # refuses a little more, such as half a character, which a file name in a message may hold.
    with contextlib.suppress(ValueError):
        return from_json(raw)
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def checksum(result: Json) -> str:
    """The hash of a result without its own `checksum`."""
    body = {key: value for key, value in result.items() if key != "checksum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def dump(content: Any) -> bytes:
    """Readable JSON; NaN and infinities are refused."""
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def sealed(content: Json) -> bytes:
    """JSON with its own checksum, for `unsealed`."""
    return dump({**content, "checksum": checksum(content)})


def unsealed(raw: bytes) -> Json:
    """What was sealed; ValueError where it is damaged. A file older than seals is taken as it is."""
    content = parse_json(raw)
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__} where an object should be")
    stated = content.pop("checksum", None)
    if stated is not None and stated != checksum(content):
        raise ValueError("its content does not match its checksum")
    return content


def write_atomic(file: Path, content: bytes) -> None:
    """Write aside, fsync, rename: a reader sees the old content or the new, whatever is killed."""
    aside = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
    try:
        write_synced(aside, content)
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(file.parent)


def write_synced(file: Path, content: bytes) -> None:
    """Write and wait until the disk has it, so that a full disk is an error here and not later."""
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename inside a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
