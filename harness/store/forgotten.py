"""Forgotten results: out of the database and every report, but kept in the store: `privbench forget`.

forgotten/<key>.json        a record each: of a cell with all of its tasks, or of an attack or a bench alone

Only the record decides, so that it survives a rebuilt database and is undone by deleting it. A damaged one is
ignored with a warning: the results are shown again, and none is lost.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator

from harness.spec import Task
from harness.store import Store
from harness.store.files import dump_checked, parse_checked, read_records, sync_folder, write_atomic
from harness.store.journal import check_key
from harness.store.outcomes import Frozen

FOLDER = "forgotten"


def _check_time(text: str) -> str:
    try:
        datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is no time in UTC") from error
    return text


class Forgotten(Frozen):
    """The record of what was forgotten, when and why."""

    key: Annotated[str, AfterValidator(check_key)]
    kind: Literal["cell", "attack", "bench"]
    forgotten: Annotated[str, AfterValidator(_check_time)]
    """When, in UTC."""
    why: str = ""


def read_forgotten(store: Store, broken: list[Path] | None = None) -> dict[str, Forgotten]:
    """All records by key; damaged ones are ignored with a warning, and added to `broken`."""
    return read_records(
        store.path / FOLDER,
        lambda raw: Forgotten(**parse_checked(raw)),
        lambda record: record.key,
        "forget it again, or delete the file",
        broken,
    )


def write_forgotten(store: Store, record: Forgotten) -> None:
    """Forget the results of a cell or a task."""
    (store.path / FOLDER).mkdir(exist_ok=True)
    write_atomic(store.path / FOLDER / f"{record.key}.json", dump_checked(record.model_dump()))


def delete_forgotten(store: Store, key: str) -> None:
    """Undo: the results of a cell or a task count again."""
    (store.path / FOLDER / f"{key}.json").unlink(missing_ok=True)
    sync_folder(store.path / FOLDER)


def is_forgotten(forgotten: Mapping[str, Forgotten], task: Task) -> bool:
    """Whether a task was forgotten, by itself or with its cell."""
    return task.key in forgotten or task.cell_key in forgotten
