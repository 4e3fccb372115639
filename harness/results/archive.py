"""Archives of tasks and tunes: a zip of a store's own folders, or a Parquet table.

Both hold a manifest (its origin, versions, and the hash of every file) and the same files. A zip has them by
their paths in a store; a Parquet table has a row per task, readable without privbench, and the records of
tunes in its metadata. Archives are untrusted: names, sizes and hashes are checked first.
"""

import hashlib
import json
import re
import stat
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from harness.store.files import checksum, dump, parse_json
from harness.store.outcomes import Frozen
from workloads.errors import SpecError

MANIFEST = "manifest.json"
NAME = re.compile(
    r"tasks/([0-9a-f]{2})/(\1[0-9a-f]{30})/(spec\.json|result\.json|[a-z_]+-[0-9a-f]{12}\.[a-z]+)"
)
TUNE = re.compile(r"tunes/[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.json")
"""The allowed names of files in an archive: of a task's, and of the record of a tune. Nothing else is ever
written."""
SWOLLEN = 100
"""The largest ratio of unpacked to packed size: a zip bomb has thousands."""
SMALL_BYTES = 64 << 20
"""The unpacked size that every archive may have."""
ROWS = 200
"""Tasks of a Parquet file in memory at once."""
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("spec", pa.string()),
        ("result", pa.string()),
        ("artefacts", pa.map_(pa.string(), pa.large_binary())),
    ]
)
SUFFIXES = (".zip", ".parquet")

Contents = Mapping[str, bytes | Path]
"""Path in the archive to the bytes, or to the file with them."""


class Entry(Frozen):
    """A file of an archive."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: str


class Manifest(Frozen):
    """The origin, versions and content of an archive."""

    format: int
    privbench: str = ""
    protocol: int
    schema_: str = Field(default="", alias="schema")
    """Of the database of the results."""
    exported: str = ""
    """Time of creation, in UTC."""
    origin: str = ""
    """The host it was created on."""
    where: str | None = None
    """The condition that selected the tasks."""
    weights: bool = False
    tasks: int = 0
    files: dict[str, Entry] = Field(default={})
    checksum: str | None = None
    """Of the rest of the manifest, as it was written."""

    def written(self) -> bytes:
        """The bytes in an archive."""
        return dump(self.model_dump(by_alias=True))

    def signed(self, files: dict[str, Entry]) -> "Manifest":
        """The manifest of these files, with its checksum."""
        whole = self.model_copy(update={"files": files, "checksum": None})
        return whole.model_copy(update={"checksum": checksum(whole.model_dump(by_alias=True))})


def check_suffix(file: Path) -> None:
    """SpecError unless the file has the suffix of an archive."""
    if file.suffix not in SUFFIXES:
        message = f"'{file}' should end in .zip or .parquet, which sets the kind of archive"
        raise SpecError(message, field="FILE", value=file.suffix, allowed=tuple(SUFFIXES))


def write_archive(file: Path, head: Manifest, contents: Contents) -> Manifest:
    """Pack the files and return the manifest, `head` with the hash of every file and of itself."""
    entries = {}
    for name, content in contents.items():
        raw = _bytes(content)
        entries[name] = Entry(bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest())
    manifest = head.signed(entries)
    aside = file.with_name(f".{file.name}-part")
    try:
        (_write_zip if file.suffix == ".zip" else _write_parquet)(aside, manifest, contents)
        aside.replace(file)
    except OSError as error:
        raise SpecError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    return manifest


def read_manifest(file: Path) -> Manifest:
    """The checked manifest, with names that are safe to write; SpecError if it is not a valid one."""
    check_suffix(file)
    try:
        raw = _zip_manifest(file) if file.suffix == ".zip" else _parquet_manifest(file)
        content = parse_json(raw)
        if content["checksum"] != checksum(content):
            raise SpecError(f"{file} is damaged or was altered: its manifest does not match its checksum")
        manifest = Manifest(**content)
    except FileNotFoundError:
        raise SpecError(f"there is no file {file}") from None
    except UNREADABLE as error:
        raise SpecError(f"{file} is not an export of privbench, or only a part of one: {error}") from error
    for name in manifest.files:
        if not (NAME.fullmatch(name) or TUNE.fullmatch(name)):
            raise SpecError(f"{file} holds an unexpected file, '{name[:100]}': nothing was imported")
    total = sum(entry.bytes for entry in manifest.files.values())
    if total > max(SMALL_BYTES, SWOLLEN * file.stat().st_size):
        raise SpecError(f"{file} would unpack to {total:,} bytes, more than {SWOLLEN} times its own size")
    return manifest


def read_contents(file: Path, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    """Every file of the archive, checked against the manifest; SpecError at the first mismatch."""
    expected = dict(manifest.files)
    try:
        for name, raw in (_zip_contents if file.suffix == ".zip" else _parquet_contents)(file, expected):
            entry = expected.pop(name, None)
            if entry is None:
                raise SpecError(f"{file} holds '{name[:100]}', which its manifest does not list")
            if len(raw) != entry.bytes or hashlib.sha256(raw).hexdigest() != entry.sha256:
                raise SpecError(f"{file} is damaged or was altered: {name} does not match its hash")
            yield name, raw
    except UNREADABLE as error:
        raise SpecError(f"{file} is damaged: {error}") from error
    if expected:
        raise SpecError(f"{file} is incomplete: {next(iter(expected))} is missing")


def is_tune(name: str) -> bool:
    """Whether a file of an archive is the record of a tune."""
    return TUNE.fullmatch(name) is not None


def _bytes(content: bytes | Path) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content


UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # a compression that this Python lacks
    RuntimeError,  # a zip with a password
    pa.ArrowException,
    OSError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
)
"""What reading an invalid file may raise."""

# -- zip -------------------------------------------------------------------------------------------


def _write_zip(file: Path, manifest: Manifest, contents: Contents) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, manifest.written())
        for name, content in contents.items():
            archive.writestr(name, _bytes(content))


def _zip_manifest(file: Path) -> bytes:
    with zipfile.ZipFile(file) as archive:
        entry = archive.getinfo(MANIFEST)
        if entry.file_size > max(SMALL_BYTES, SWOLLEN * file.stat().st_size):
            raise ValueError("its manifest is too large to be one")
        return archive.read(entry)


def _zip_contents(file: Path, expected: Mapping[str, Entry]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.filename == MANIFEST or entry.is_dir():
                continue
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise ValueError(f"'{entry.filename[:100]}' is a link")
            size = expected[entry.filename].bytes
            with archive.open(entry) as source:
                yield entry.filename, source.read(size + 1)  # whatever its header states


# -- Parquet ---------------------------------------------------------------------------------------


def _write_parquet(file: Path, manifest: Manifest, contents: Contents) -> None:
    tunes = {name: _bytes(content).decode("ascii") for name, content in contents.items() if is_tune(name)}
    schema = SCHEMA.with_metadata({"privbench": manifest.written(), "tunes": json.dumps(tunes)})
    tasks: dict[str, list[str]] = defaultdict(list)
    for name in contents:
        if name not in tunes:
            tasks[name.rsplit("/", 1)[0]].append(name)
    remaining = iter(tasks.items())
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while part := list(islice(remaining, ROWS)):
            rows = [
                _task_row(folder, {name: _bytes(contents[name]) for name in names}) for folder, names in part
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def _task_row(folder: str, files: dict[str, bytes]) -> dict[str, Any]:
    texts = {name: files.pop(f"{folder}/{name}.json").decode("ascii") for name in ("spec", "result")}
    artefacts = [(name.rsplit("/", 1)[1], content) for name, content in files.items()]
    return {"key": folder.rsplit("/", 1)[1], **texts, "artefacts": artefacts}


def _parquet_manifest(file: Path) -> bytes:
    metadata = pq.read_schema(file).metadata or {}
    return bytes(metadata[b"privbench"])


def _parquet_contents(file: Path, expected: Mapping[str, Entry]) -> Iterator[tuple[str, bytes]]:
    with pq.ParquetFile(file) as source:
        declared = sum(
            int(source.metadata.row_group(each).total_byte_size) for each in range(source.num_row_groups)
        )
        if declared > 2 * sum(entry.bytes for entry in expected.values()) + SMALL_BYTES:
            raise ValueError("it unpacks to more than its manifest lists")
        for name, text in parse_json((source.schema_arrow.metadata or {}).get(b"tunes", b"{}")).items():
            yield name, text.encode()
        for batch in source.iter_batches(1):  # a short dictionary may expand to rows of any length
            (row,) = batch.to_pylist()
            folder = f"tasks/{row['key'][:2]}/{row['key']}"
            yield f"{folder}/spec.json", row["spec"].encode()
            yield f"{folder}/result.json", row["result"].encode()
            for name, content in row["artefacts"]:
                yield f"{folder}/{name}", content
