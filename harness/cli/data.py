"""`privbench data`: the data sets behind the workloads, and their features."""

from typing import Annotated, Any

import typer

from harness.cli import output
from harness.cli.options import JsonOption
from workloads.errors import BenchError

data_app = typer.Typer(
    help="The data sets behind the workloads, and their features.",
    epilog="Example: privbench data list",
    no_args_is_help=True,
)


@data_app.command("list", epilog="Example: privbench data list --json")
def data_list(json: JsonOption = False) -> None:
    """List data sets: availability, searched locations, size, licence, citation."""
    from harness.cli.datasets import listing, overview

    rows = listing()
    output.listing(rows if json else overview(rows), json)


@data_app.command("fetch", epilog="Example: privbench data fetch mnist cifar-10")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets, by their names in `privbench data list`.")],
    json: JsonOption = False,
) -> None:
    """Download data sets into $PRIVBENCH_DATA and check them; a broken transfer is resumed."""
    from harness.cli.datasets import bars, fetched

    with bars(output.err) as progress:
        rows = fetched(names, progress)
    _outcome(rows, json)


@data_app.command("verify", epilog="Example: privbench data verify mnist")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; default: all available ones.")] = None,
    json: JsonOption = False,
) -> None:
    """Re-read data sets and check them against the published checksums and the known content."""
    from harness.cli.datasets import verified

    rows = verified(names or [])
    output.listing(rows, json)
    if any(row["state"] in ("damaged", "absent") for row in rows):
        raise typer.Exit(1)


@data_app.command("features", epilog="Example: privbench data features cifar10-effnet")
def data_features(
    banks: Annotated[
        list[str] | None, typer.Argument(help="Feature banks to compute; default: list them.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use; default: torch's choice.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compute the features of frozen networks, once; an interrupted computation resumes."""
    from harness.cli.features import listing, made, progress_on

    if not banks:
        output.listing(listing(), json)
        return
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    with progress_on(output.err) as progress:
        rows = made(banks, progress)
    _outcome(rows, json)


def _outcome(rows: list[dict[str, Any]], json: bool) -> None:
    """Print the outcome of each name; exit code 1 if one failed."""
    failures = [row for row in rows if row["state"] == "failed"]
    if json:
        output.json_out(rows)
    else:
        for row in rows:
            if row not in failures:
                output.say(f"{row['name']}: {row['state']}, {row['detail']}")
    for row in failures:
        output.complain(BenchError(f"{row['name']}: {row['detail']}"))
    if failures:
        raise typer.Exit(1)
