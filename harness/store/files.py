"""Files that survive crashes: written atomically, JSON with its own checksum."""

import contextlib
import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json

from harness.spec import Json

log = logging.getLogger(__name__)

Record = TypeVar("Record")


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


def read_records(
    folder: Path,
    parse: Callable[[bytes], Record],
    name: Callable[[Record], str],
    hint: str,
    broken: list[Path] | None = None,
) -> dict[str, Record]:
    """The records in a folder's JSON files, by name.

    A damaged one, and one in a file of another name, is left out with a warning and added to `broken`.

    Args:
        folder: A missing one has no records.
        parse: ValueError or TypeError if the content is no record.
        name: The name that a record's file must have.
        hint: What to do about a damaged file.
        broken: Where to add the files that were left out.
    """
    found = {}
    for file in sorted(folder.glob("*.json")):
        try:
            record = parse(file.read_bytes())
            if name(record) != file.stem:
                raise ValueError(f"it is the record of {name(record)!r}")
        except FileNotFoundError:  # deleted meanwhile
            continue
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s is damaged and left out: %s (%s)", file, hint, error)
            if broken is not None:
                broken.append(file)
            continue
        found[file.stem] = record
    return found


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
