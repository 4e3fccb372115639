"""Reading third-party files: completely or not at all, in memory, never to a path from an archive."""

import gzip
import hashlib
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from workloads.errors import BenchError

ARCHIVES = (".tgz", ".tar.gz", ".tar.xz", ".tar.bz2", ".tar")
BROKEN = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError)
"""What the standard library raises on truncated archives and other files."""


def wrong(path: Path | str, expected: str, found: str) -> BenchError:
    """The error for unexpected content of a file: `value` is what was found, `allowed` what was expected."""
    return BenchError(
        f"{path}: expected {expected}, found {found}. Nothing was cached. "
        "Put the publisher's file there, or get it with `privbench data fetch`.",
        field=str(path),
        value=found,
        allowed=expected,
    )


def is_archive(path: Path) -> bool:
    """Whether the path is named like a tar archive."""
    return path.name.lower().endswith(ARCHIVES)


def read_members(path: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of every wanted file of a folder or tar archive, or of a single file.

    Args:
        path: a folder, a tar archive or one plain file.
        wanted: selects files by their name (parts joined by /).
        limit: the largest size in bytes a wanted file may have.

    Links and devices in an archive are skipped and nothing is written, so no path of it is followed.
    """
    if path.is_dir():
        yield from _folder(path, wanted, limit)
    elif is_archive(path):
        yield from _archive(path, wanted, limit)
    elif wanted(path.name):
        yield path.name, _checked(path, path.stat().st_size, limit, path.open("rb"))


def _folder(folder: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    for name, status in walk(folder):
        if wanted(name):
            file = folder / name
            yield name, _checked(file, status.st_size, limit, file.open("rb"))


def _archive(path: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if not member.isfile() or not wanted(member.name):
                    continue
                content = archive.extractfile(member)
                if content is None:
                    raise wrong(path, f"a readable member {member.name}", "an unreadable one")
                yield member.name, _checked(f"{path}: {member.name}", member.size, limit, content)
    except BROKEN as error:
        raise wrong(path, "a whole tar archive", f"a broken one ({error or type(error).__name__})") from error


def _checked(name: Path | str, size: int, limit: int, opened: IO[bytes]) -> bytes:
    with opened:
        if size > limit:
            raise wrong(name, f"at most {limit:,} bytes", f"{size:,}")
        return opened.read()


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file below a folder with its status, sorted by name; links to folders are skipped."""
    pending, found = [""], []
    while pending:
        below = pending.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{below}{entry.name}/")
                elif entry.is_file():
                    found.append((f"{below}{entry.name}", entry.stat()))
    yield from sorted(found, key=lambda each: each[0])


def open_plain(path: Path) -> IO[bytes]:
    """Open a file, decompressed if its first bytes are those of gzip."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else path.open("rb")  # type: ignore[return-value]


def md5(path: Path) -> str:
    """The MD5 of a file, as publishers state it: against accidents, not against attacks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
