"""`privbench purge`: delete what tells of single members, keep the numbers."""

import sys
from typing import Annotated

import typer

from harness import console
from harness.cli_options import JsonOption, StoreOption, store_path
from workloads.errors import SpecError


def purge(
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Weights, signals, scores, pictures and checkpoints.")
    ] = False,
    sweep: Annotated[str | None, typer.Option("--sweep", help="Only the tasks of this sweep.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would go, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Delete what ended tasks hold of their members; every row, result and step time stays.

    A later attack on a purged cell trains its models again. Two sweeps may share tasks: what one purges is
    gone for the other too.
    """
    from harness.purge import holdings
    from harness.purge import purge as delete
    from harness.store import Store

    if not artefacts:
        raise SpecError("say what to delete: --artefacts (weights, signals, scores, pictures, checkpoints)")
    opened = Store.open(store_path(store))
    found = holdings(opened, sweep)
    size = sum(each.bytes for each in found)
    count = sum(len(each.files) for each in found)
    told = f"{count} files of {len(found)} tasks, {size / 1e6:,.1f} MB"
    if found and not dry_run:
        if not yes:
            _ask(told)
        delete(opened, found)
    if json:
        deleted = bool(found) and not dry_run
        console.json_out({"tasks": len(found), "files": count, "bytes": size, "deleted": deleted})
    elif not found:
        console.say("Nothing to delete.")
    else:
        console.say(f"{'Would delete' if dry_run else 'Deleted'} {told}.")


def _ask(told: str) -> None:
    if not sys.stdin.isatty():
        raise SpecError(f"this deletes {told} for good: give --yes, or --dry-run to only look")
    typer.confirm(f"Delete {told} for good?", abort=True)
