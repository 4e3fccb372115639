"""The feature banks behind the workloads on frozen features: listing and computing them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from workloads import features
from workloads.errors import BenchError
from workloads.features.bank import Bank
from workloads.features.progress import Lines, Progress

Row = dict[str, Any]


def listing() -> list[Row]:
    """A row per bank: kept, to make or missing; its file, or what it lacks."""
    return [_row(features.family.get(name)) for name in features.family.names()]


def made(names: Sequence[str], progress: Progress) -> list[Row]:
    """Compute the named banks; a row each: here, made or failed, with its file or the reason.

    Unknown names are errors before anything is done.
    """
    banks = [features.family.get(name) for name in dict.fromkeys(names)]
    return [{"name": bank.name, **_make(bank, progress)} for bank in banks]


@contextmanager
def progress_on(console: Console) -> Iterator[Progress]:
    """A progress bar per split; without a terminal, occasional lines."""
    if not console.is_terminal:
        yield Lines(lambda text: console.print(text, highlight=False, soft_wrap=True))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, TimeRemainingColumn(), console=console) as shown:
        known = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = shown.add_task(what, total=total)
            shown.update(known[what], completed=done)

        yield show


def _make(bank: Bank, progress: Progress) -> Row:
    try:
        here = bank.missing() is None and bank.kept()
        bank.load(progress)
        return {"state": "here" if here else "made", "detail": str(bank.file())}
    except BenchError as error:
        return {"state": "failed", "detail": str(error)}


def _row(bank: Bank) -> Row:
    missing = bank.missing()
    kept = missing is None and bank.kept()
    return {
        "name": bank.name,
        "state": "kept" if kept else "to make" if missing is None else "missing",
        "MB": f"{bank.file().stat().st_size / 1e6:,.1f}" if kept else None,
        "what": bank.about,
        "where": str(bank.file()) if missing is None else missing,
    }
