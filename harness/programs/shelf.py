"""What users gave for audits, kept in the store under names that are hashes of the content.

    given/<name>/about.json    what it is, and the digest of every file
    given/<name>/...           the files

A process that performs a task makes what the task names members of the families (`admit`): nothing else about
such a task is special, on whatever node it runs.
"""

import hashlib
import re
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import methods
import workloads
from harness.programs.given_records import FILE, Arrays, GivenRecords, dump_records
from harness.programs.program import FILES, Program
from harness.spec import Cell, Json, key_of
from harness.store import Store
from harness.store.files import dump_checked, parse_checked, write_synced
from workloads.errors import StoreError
from workloads.fingerprint import GIVEN

ABOUT = "about.json"
DIGITS = 12
RECORDS = "records"


def keep_records(store: Store, arrays: Arrays) -> str:
    """Keep records and return the name of their workload; DataError if they cannot be used."""
    content = dump_records(arrays)
    return _keep(store, RECORDS, {"kind": "records"}, {FILE: content})


def keep_program(store: Store, stem: str, about: Json, files: Mapping[str, bytes]) -> str:
    """Keep a program and return the name of its method; `about` as Program takes it."""
    plain = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "program"
    inside = {f"{FILES}/{name}": content for name, content in files.items()}
    return _keep(store, plain, {**about, "kind": "program"}, inside)


def _keep(store: Store, stem: str, about: Json, files: Mapping[str, bytes]) -> str:
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    whole = {**about, "files": digests}
    name = f"{stem}-{key_of(whole)[:DIGITS]}"
    folder = store.given / name
    if _read_about(folder) is not None:
        return name
    aside = folder.with_name(f".{name}-{uuid.uuid4().hex}")
    for file, content in files.items():
        (aside / file).parent.mkdir(parents=True, exist_ok=True)
        write_synced(aside / file, content)
    (aside / FILES).mkdir(parents=True, exist_ok=True)
    write_synced(aside / ABOUT, dump_checked(whole))
    try:
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        aside.rename(folder)
    except OSError:
        if _read_about(folder) is None:
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return name


def _read_about(folder: Path) -> Json | None:
    """What was given; None if it is missing, damaged, or not what its name says."""
    try:
        about = parse_checked((folder / ABOUT).read_bytes())
        whole = all(_digest(folder / file) == digest for file, digest in about["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return about if whole and folder.name.endswith(f"-{key_of(about)[:DIGITS]}") else None


def describe_given(store: Store, name: str) -> Json:
    """What was given under a name; StoreError if it is missing or damaged."""
    about = _read_about(store.given / name)
    if about is None:
        raise _damaged(store.given / name)
    return about


def _damaged(folder: Path) -> StoreError:
    return StoreError(
        f"{folder} is missing, damaged or was altered: run the audit again, which rewrites it",
        field="given",
        value=folder.name,
    )


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def admit(store: Store, cells: Iterable[Cell]) -> None:
    """Make what these cells name, and the store was given, members of the families of this process.

    StoreError if it is damaged or was altered.
    """
    for cell in cells:
        admit_names(store, cell.workload.name, cell.method.name)


def admit_names(store: Store, workload: str, method: str) -> None:
    """The same by the names of a workload and a method."""
    for name, family in ((workload, workloads.family), (method, methods.family)):
        folder = store.given / name
        if not GIVEN.fullmatch(name) or not folder.is_dir():
            continue
        known: Any = family.members.get(name)
        if known is not None and known.folder == folder:
            continue
        about = describe_given(store, name)
        member: Any = _member(name, folder, about)
        family.members[name] = member


def _member(name: str, folder: Path, about: Json) -> GivenRecords | Program:
    return GivenRecords(name, folder) if about["kind"] == RECORDS else Program(folder, about)
