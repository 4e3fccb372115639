"""`privbench export` and `privbench import`: results that leave a store, and results of others."""

from pathlib import Path
from typing import Annotated

import typer

from harness import console
from harness.cli_options import JsonOption, StoreOption, store_path

SHOWN = 10
"""Conflicts that an import prints; all are in the view."""


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
    """Pack results with provenance and hashes into one file; no weights unless asked for."""
    from harness.exchange import export_results

    manifest = export_results(store_path(store), file, where, weights)
    if json:
        console.json_out({name: value for name, value in manifest.items() if name != "files"})
    else:
        console.say(f"{manifest['tasks']} tasks, {len(manifest['files'])} files: {file}")


def import_(
    file: Annotated[Path, typer.Argument(help="What `privbench export` made.")],
    name: Annotated[str | None, typer.Option("--as", help="Whose they are; else the file's name.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop what was imported under this name before.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Take in results of others, marked with their origin; ours stay as they are, and conflicts are shown."""
    from harness.collect import collect
    from harness.exchange import conflicts, import_results

    path = store_path(store)
    done = import_results(path, file, name, replace)
    collect(path)
    found = conflicts(path, done.origin)
    if json:
        console.json_out({**vars(done), "conflicts": found})
        return
    before = "" if done.new else " (they were there already)"
    console.say(f"{done.tasks} tasks of origin '{done.origin}'{before}")
    if found:
        console.out.print(console.table(found[:SHOWN], title="conflicts: the same task, other numbers"))
        console.say(f'{len(found)} figures differ from ours: privbench query "select * from conflicts"')
