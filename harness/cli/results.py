"""Commands for results: collect, query, export, import, purge."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import output
from harness.cli.options import (
    DatabaseOption,
    JsonOption,
    StoreOption,
    database_url,
    source,
    store_path,
    stored_sweeps,
)
from workloads.errors import SpecError

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
) -> None:
    """Query the database by SQL, read-only. Views: frontier, overhead, failures; `steps` has every step."""
    from harness.results.query import query as ask
    from harness.results.table import render

    if format == "parquet" and out is None:
        raise SpecError("--format parquet needs --out FILE")
    typer.echo(render(ask(source(store, database), sql), format, out), nl=False)


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
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Pack results with provenance and hashes into one file; weights only on request."""
    from harness.results.transfer import export_results

    manifest = export_results(store_path(store), file, where, weights)
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
        output.out.print(output.table(found[:SHOWN], title="conflicts: the same task, other numbers"))
        output.say(f'{len(found)} figures differ from ours: privbench query "select * from conflicts"')


def purge(
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Weights, signals, scores, pictures and checkpoints.")
    ] = False,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", help="Only the tasks of this sweep.", autocompletion=stored_sweeps),
    ] = None,
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
    found = holdings(opened, sweep)
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
