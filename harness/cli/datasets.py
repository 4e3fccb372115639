"""The data sets behind the workloads: availability, download and verification."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from workloads import data
from workloads.data.dataset import Dataset, Published, Verdict
from workloads.data.download import Progress, fetch
from workloads.data.places import data_root
from workloads.errors import BenchError, UnknownName

Row = dict[str, Any]


def listing() -> list[Row]:
    """A row per data set: availability, location, size, licence and citation."""
    return [
        {
            "name": name,
            "present": each.location() is not None,
            "where": each.location(),
            "looked_for": each.looked_for(),
            "bytes": each.size(),
            "about": each.about,
            "licence": each.licence,
            "citation": each.citation,
            "files": [
                {"name": file.name, "urls": list(file.urls), "md5": file.md5, "bytes": file.bytes}
                for file in each.files
            ],
        }
        for name, each in _chosen(())
    ]


def overview(rows: Sequence[Row]) -> list[Row]:
    """The listing in the columns that fit a terminal."""
    return [
        {
            "name": row["name"],
            "present": row["present"],
            "MB": None if row["bytes"] is None else f"{row['bytes'] / 1e6:,.1f}",
            "where": row["where"] or _not_below(row["looked_for"]),
            "what": row["about"],
            "licence; citation": f"{row['licence']}; {row['citation']}",
        }
        for row in rows
    ]


def _not_below(places: Sequence[str]) -> str:
    root = data_root()
    return f"not below {root}: {', '.join(str(Path(place).relative_to(root)) for place in places)}"


def verified(names: Sequence[str] = ()) -> list[Row]:
    """A row per named data set, or per present one: good, damaged, unchecked or absent, and why."""
    rows = []
    for name, each in _chosen(names):
        verdict = each.verify() if names or each.location() is not None else Verdict("absent")
        if names or verdict.state != "absent":
            rows.append(
                {
                    "name": name,
                    "state": verdict.state,
                    "where": each.location(),
                    "detail": verdict.detail,
                    "sha256": each.sha256,
                }
            )
    return rows


def fetched(names: Sequence[str], progress: Progress) -> list[Row]:
    """Download the named data sets; a row each: here, fetched or failed, with its location or the reason."""
    rows = []
    for name, each in _chosen(names):
        if not isinstance(each, Published):
            rows.append({"name": name, "state": "here", "detail": f"comes with {each.location()}"})
        elif each.location() is not None and each.verify().state in ("good", "unchecked"):
            rows.append({"name": name, "state": "here", "detail": str(each.location())})
        else:
            rows.append({"name": name, **_fetch(each, progress)})
    return rows


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """A progress bar per file: amount, rate, time left. None is drawn into a pipe."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as shown:
        known = {}

        def show(name: str, have: int, total: int | None) -> None:
            if name not in known:
                known[name] = shown.add_task(name, total=total)
            shown.update(known[name], completed=have, total=total)

        yield show


def _fetch(dataset: Published, progress: Progress) -> Row:
    try:
        return {"state": "fetched", "detail": str(fetch(dataset, progress))}
    except BenchError as error:
        return {"state": "failed", "detail": str(error)}


def _chosen(names: Sequence[str]) -> list[tuple[str, Dataset]]:
    """The named data sets, or all; unknown names are errors before anything is done."""
    members = data.family.members
    for name in names:
        if name not in members:
            raise UnknownName("data set", name, members)
    return [(name, members[name]) for name in (dict.fromkeys(names) or sorted(members))]
