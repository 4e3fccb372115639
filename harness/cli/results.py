"""Commands for results: collect, query, export, import, forget, purge."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import output
from harness.cli.options import (
    DatabaseOption,
    JsonOption,
    OfSweepOption,
    StoreOption,
    WideOption,
    database_url,
    source,
    store_path,
    stored_sweeps,
)
from harness.cli.terminal.fitting import Layout
from workloads.errors import SpecError

QUERIED = Layout(one_line=True)
SHOWN = 10
"""Conflicts that an import prints, at most; all are in the view."""


def collect(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build a new database.")] = False,
    store: StoreOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Collect the results of the store into its database, or into another one. Idempotent."""
    from harness.results.collect import collect as gather

    output.collected(gather(store_path(store), database_url(database), rebuild), json)


def query(
    sql: Annotated[str, typer.Argument(help='For example "select * from frontier".')],
    format: Annotated[Literal["table", "csv", "json", "parquet"], typer.Option("--format")] = "table",
    out: Annotated[Path | None, typer.Option("--out", help="A file instead of the terminal.")] = None,
    store: StoreOption = None,
    database: DatabaseOption = None,
    wide: WideOption = False,
) -> None:
    """Query the database by SQL, read-only. Views: frontier, overhead, failures; `steps` has every step."""
    from harness.results.query import query as ask
    from harness.results.table import render, text_rows

    if format == "parquet" and out is None:
        raise SpecError("--format parquet needs --out FILE")
    found = ask(source(store, database), sql)
    rows = text_rows(found) if format == "table" and out is None and output.out.is_terminal else []
    if not rows or wide:
        typer.echo(render(found, format, out), nl=False)
        return
    output.print_table(rows, layout=QUERIED, rest="--wide, --format csv or --format json shows all")
    output.say(f"({len(rows)} row{'s' * (len(rows) != 1)})")


def export(
    file: Annotated[Path, typer.Argument(help="Ends in .zip or .parquet.")],
    where: Annotated[
        str | None,
        typer.Option(
            "--where", help="An SQL condition on a task and its cell: workload, method, attack, ..."
        ),
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="With models, signals and pictures (zip).")
    ] = False,
    steps: Annotated[
        bool, typer.Option(help="With the time of every step, most of the file; its quantiles are in any.")
    ] = True,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Pack results with provenance and hashes into one file; weights only on request."""
    from harness.results.transfer import export_results

    manifest = export_results(store_path(store), file, where, weights, steps)
    if json:
        output.json_out(manifest.model_dump(by_alias=True, exclude={"files"}))
    else:
        output.say(f"{manifest.tasks} tasks, {len(manifest.files)} files: {file}")


def import_(
    file: Annotated[Path, typer.Argument(help="A file from `privbench export`.")],
    name: Annotated[
        str | None, typer.Option("--as", help="The name of their origin; default: the file's name.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an earlier import under this name.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Import results of others, marked with their origin; ours stay unchanged, and conflicts are shown."""
    from harness.results.collect import collect
    from harness.results.transfer import conflicts, import_results

    path = store_path(store)
    done = import_results(path, file, name, replace)
    collect(path)
    found = conflicts(path, done.origin)
    if json:
        output.json_out({**vars(done), "conflicts": found})
        return
    before = "" if done.new else " (they were there already)"
    output.say(f"{done.tasks} tasks of origin '{done.origin}'{before}")
    if found:
        output.print_table(found[:SHOWN], "conflicts: the same task, other numbers", rest="--json shows all")
        output.say(f'{len(found)} figures differ from ours: privbench query "select * from conflicts"')


def forget(
    cells: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CELL]...", help="Keys of cells, attacks or benches, or their first digits."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", help="An SQL condition on a cell: workload, method, sweep, finished, ..."),
    ] = None,
    sweep: OfSweepOption = None,
    why: Annotated[str, typer.Option("--why", help="The reason, for the record.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Bring forgotten results back.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be forgotten, and change nothing.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Take results out of the database and every report; they stay in the store, and --undo is exact.

    A cell goes with all of its models and attacks; an attack or a bench can go alone. Failures stay visible,
    and forgotten configurations still count as tried. Running their sweep again does not retrain them.
    """
    from harness.results.collect import collect
    from harness.results.forgetting import find_results, forget_results, recall_results
    from harness.store import Store

    if undo and why:
        raise SpecError("--why is the reason to forget: leave it out with --undo", field="--why", value=why)
    opened = Store.open(store_path(store))
    collect(opened.path)
    found = find_results(opened, cells or (), where, sweep, undo)
    if not dry_run:
        recall_results(opened, found) if undo else forget_results(opened, found, why)
        collect(opened.path)
    if json:
        output.json_out({"changed": not dry_run, "undo": undo, "results": [vars(each) for each in found]})
        return
    rows = [{**vars(each), "key": each.key[:12], "cell": (each.cell or "")[:12]} for each in found]
    output.print_table(rows)
    tasks = sum(each.tasks for each in found)
    done = "brought back" if undo else "forgotten: in no table, figure or page written from now on"
    output.say(f"{tasks} tasks {'would be ' * dry_run}{done}.")
    if not undo and not dry_run:
        keys = found[0].key[:12] if len(found) == 1 else "KEY"
        output.say(f'Undo: privbench forget --undo {keys}. All: privbench query "select * from forgotten".')


def purge(
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Weights, signals, scores, pictures and checkpoints.")
    ] = False,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", help="Only the tasks of this sweep.", autocompletion=stored_sweeps),
    ] = None,
    forgotten: Annotated[
        bool, typer.Option("--forgotten", help="Only what was forgotten (privbench forget).")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Delete artefacts of ended tasks, which may reveal members; every row, result and step time stays.

    A later attack on a purged cell retrains its models. Two sweeps may share tasks: what one purges is gone
    for the other too.
    """
    from harness.backends.status import refuse_unfinished
    from harness.store import Store
    from harness.store.purge import holdings
    from harness.store.purge import purge as delete

    if not artefacts:
        raise SpecError("give what to delete: --artefacts (weights, signals, scores, pictures, checkpoints)")
    opened = Store.open(store_path(store))
    refuse_unfinished(opened)
    found = holdings(opened, sweep, forgotten)
    size = sum(each.bytes for each in found)
    count = sum(len(each.files) for each in found)
    what = f"{count} files of {len(found)} tasks, {size / 1e6:,.1f} MB"
    if found and not dry_run:
        if not yes:
            _ask(what)
        delete(opened, found)
    if json:
        deleted = bool(found) and not dry_run
        output.json_out({"tasks": len(found), "files": count, "bytes": size, "deleted": deleted})
    elif not found:
        output.say("Nothing to delete.")
    else:
        output.say(f"{'Would delete' if dry_run else 'Deleted'} {what}.")


def _ask(what: str) -> None:
    if not sys.stdin.isatty():
        raise SpecError(f"this permanently deletes {what}: give --yes, or --dry-run to only look")
    typer.confirm(f"Permanently delete {what}?", abort=True)
