"""Export and import of results, with their provenance and under their origin's name.

An import is a separate store inside ours (store/imports.py): its rows are marked with its name, and it never
changes a file or row of ours.
"""

import os
import platform
import re
import shutil
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import db
from harness.results.archive import (
    Manifest,
    check_suffix,
    is_tune,
    read_contents,
    read_manifest,
    write_archive,
)
from harness.results.collect import collect
from harness.results.query import query
from harness.results.rows import Row
from harness.spec import PROTOCOL
from harness.store import Store, read_result
from harness.store.checks import PURGED
from harness.store.files import dump, dump_checked, parse_json
from harness.store.forgotten import is_forgotten, read_forgotten
from harness.store.imports import IMPORTS, MANIFEST
from harness.store.journal import Purged
from harness.store.private import publishable
from harness.store.result import parse_result
from harness.store.tunes import FOLDER as TUNES
from harness.store.tunes import parse_tune, read_tunes
from workloads.errors import SpecError, StoreError

FORMAT = 2
"""The version of the archive; raised when an older privbench could not read it."""
WITHOUT_TUNES = 1
"""The version of one without records of tunes, which 0.1 reads."""
ORIGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
TIMES = ("steps", "laps")
"""Artefacts with the time of every step; their quantiles are in the result."""
TASKS = """
    (select t.key, t.kind, t.workload, t.method, t.attack, t.index, t.status, t.reason, t.host, t.device,
        t.finished, t.protocol, c.label, c.epsilon_asked, c.delta, c.params, c.n_train, c.seed, c.canary,
        s.sweep
    from task t left join cell c on c.key = t.cell left join task_sweep s on s.task = t.key
    where t.origin = '') task
"""
"""The relation that a condition selects from: our own tasks with the columns of their cells."""


@dataclass(frozen=True)
class Imported:
    """The outcome of an import."""

    origin: str
    tasks: int
    new: bool
    """False if exactly this was imported before."""


def export_results(
    store_path: Path, file: Path, where: str | None = None, weights: bool = False, steps: bool = True
) -> Manifest:
    """Pack our own ended tasks, or those that `where` selects (see TASKS), and return the manifest.

    The record of a tune goes with any of its trials, so that they are counted where they arrive. Without
    `weights` only what rows depend on: specs, results and, unless `steps` is false, the times of every step;
    never what a store keeps to itself (store/private.py), nor what it has forgotten. SpecError if nothing is
    selected.
    """
    check_suffix(file)
    store = Store.open(store_path)
    if weights and file.suffix != ".zip":
        raise SpecError("weights are exported to a zip only: give a FILE that ends in .zip")
    wanted = _selected(store, where) if where else None
    forgotten = read_forgotten(store)
    contents: dict[str, bytes | Path] = {}
    cells: set[str | None] = set()
    tasks = 0
    for folder in store.folders():
        if (wanted is None or folder.name in wanted) and read_result(folder) is not None:
            task = store.task(folder.name)  # a damaged one is reported here, not at import
            if is_forgotten(forgotten, task):
                continue
            contents |= _files(store, folder, weights, steps)
            cells.add(task.cell_key)
            tasks += 1
    if not tasks:
        condition = f" that has {where}" if where else ""
        raise SpecError(
            f"{store.path} holds no ended task{condition}: there is nothing to export",
            field="--where" if where else "--store",
            value=where or store.path,
        )
    tunes = _tunes_of(store, cells)
    head = Manifest(
        format=FORMAT if tunes else WITHOUT_TUNES,
        privbench=version("privbench"),
        protocol=PROTOCOL,
        schema=db.fingerprint(),
        exported=datetime.now(UTC).isoformat(timespec="seconds"),
        origin=platform.node(),
        where=where,
        weights=weights,
        tasks=tasks,
    )
    return write_archive(file, head, contents | tunes)


def import_results(store_path: Path, file: Path, name: str | None = None, replace: bool = False) -> Imported:
    """Unpack an export next to our own results, completely or not at all, under `name` (else the file's).

    A second import of a file changes nothing. SpecError for a file that is damaged, altered, of a newer
    privbench or not an export, and for a name that holds another import, unless `replace`.
    """
    origin = file.stem if name is None else name
    if not ORIGIN.fullmatch(origin):
        raise SpecError(f"'{origin}' cannot name an origin: give --as NAME, letters, digits and . _ - only")
    manifest = read_manifest(file)
    _refuse_newer(file, manifest)
    store = Store(store_path)
    store.check()
    target = store.path / IMPORTS / origin
    standing = _standing(target)
    if standing == manifest.checksum:
        held = {Path(name).parent for name in manifest.files if not is_tune(name)}
        return Imported(origin, len(held), new=False)
    if standing is not None and not replace:
        raise SpecError(
            f"other results were imported as '{origin}': give --as NAME to keep both, or --replace the old"
        )
    # A new store is not created before the file has proved to be valid.
    home = target.parent if store.exists() else store.path.parent
    aside = home / f".{origin}-{uuid.uuid4().hex}"
    try:
        tasks = _unpack(file, manifest, Store.open(aside, create=True))
        Store.open(store_path, create=True)
        _put(aside, target)
    except OSError as error:
        raise StoreError(f"{file} cannot be unpacked into {home}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Imported(origin, tasks, new=True)


def conflicts(store_path: Path, origin: str) -> list[Row]:
    """Figures of an import that differ from ours of the same task; the database must be up to date."""
    found: list[Row] = query(
        store_path, f"select * from conflicts where origin = '{origin}' order by abs(difference) desc, task"
    ).arrow.to_pylist()
    return found


def _selected(store: Store, where: str) -> set[str]:
    collect(store.path)
    # The newline keeps an SQL comment at the condition's end from swallowing the bracket.
    return {key for (key,) in query(store.path, f"select key from {TASKS} where ({where}\n)").rows}


def _files(store: Store, folder: Path, weights: bool, steps: bool) -> dict[str, bytes | Path]:
    """The files by their names in the store. The result is read once: it may be replaced meanwhile."""
    result = parse_result(parse_json((folder / "result.json").read_bytes()))
    files: dict[str, bytes | Path] = {"spec.json": (folder / "spec.json").read_bytes()}
    files["result.json"] = dump_checked(publishable(result).document())
    for name in result.artefacts:
        file = store.artefact(result, name)
        if (steps if name in TIMES else weights) and file.is_file():
            files[file.name] = file
    return {f"{folder.relative_to(store.path).as_posix()}/{name}": content for name, content in files.items()}


def _tunes_of(store: Store, cells: Collection[str | None]) -> dict[str, bytes | Path]:
    """The records of tunes with a trial among the cells, by their names in the store."""
    return {
        f"{TUNES}/{name}.json": (store.path / TUNES / f"{name}.json").read_bytes()
        for name, record in read_tunes(store).items()
        if any(trial.cell in cells for trial in record.all_trials())
    }


def _refuse_newer(file: Path, manifest: Manifest) -> None:
    for what, theirs, ours in (
        ("format", manifest.format, FORMAT),
        ("protocol", manifest.protocol, PROTOCOL),
    ):
        if theirs > ours:
            raise SpecError(
                f"{file} was made by privbench {manifest.privbench} ({what} {theirs}); this is "
                f"privbench {version('privbench')} ({what} {ours}): update it to import this file"
            )


def _standing(target: Path) -> str | None:
    """The checksum of what was imported under this name, empty if that is damaged; None for nothing."""
    try:
        return str(parse_json((target / MANIFEST).read_bytes())["checksum"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ""


def _unpack(file: Path, manifest: Manifest, store: Store) -> int:
    """Fill an empty store and return the number of tasks. SpecError for a damaged task or tune."""
    folders: dict[Path, set[str]] = {}
    for name, content in read_contents(file, manifest):
        target = store.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if is_tune(name):
            _accept_tune(name, content)
            continue
        folders.setdefault(target.parent, set()).add(target.name)
    for folder, names in folders.items():
        _accept(store, folder, names)
    (store.path / MANIFEST).write_bytes(manifest.written())
    os.sync()
    return len(folders)


def _accept_tune(name: str, content: bytes) -> None:
    """SpecError if it is not the record of the tune that its name says."""
    try:
        if parse_tune(content).name == Path(name).stem:
            return
    except ValueError as error:
        raise SpecError(f"{name} of the import is damaged: nothing was imported") from error
    raise SpecError(f"{name} of the import is the record of another tune: nothing was imported")


def _accept(store: Store, folder: Path, names: Collection[str]) -> None:
    """Record what was left out, so that the rest counts as complete; SpecError if it is not."""
    try:
        artefacts = parse_result(parse_json((folder / "result.json").read_bytes())).artefacts
        left_out = sorted({each.file for each in artefacts.values()} - set(names))
        (folder / PURGED).write_bytes(dump(Purged(files=left_out).model_dump()))
        result = read_result(folder)
        if result is None or result.key != folder.name:
            raise SpecError(f"the result of task {folder.name} is damaged: nothing was imported")
        for name, each in artefacts.items():
            if each.file in names:
                store.read_artefact(result, name)
        store.task(folder.name)
    except (OSError, KeyError, TypeError, ValueError, AttributeError, StoreError) as error:
        raise SpecError(f"task {folder.name} of the import is damaged: nothing was imported") from error


def _put(aside: Path, target: Path) -> None:
    """Publish a complete import atomically, in place of an older one."""
    target.parent.mkdir(exist_ok=True)
    old = target.with_name(f"{aside.name}-old")
    if target.exists():
        target.rename(old)
    aside.rename(target)
    shutil.rmtree(old, ignore_errors=True)
