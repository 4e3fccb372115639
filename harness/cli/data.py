"""`privbench data`: the data sets behind the workloads, and the features made of them."""

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
    """What data there is, where it was looked for, its size, licence and citation."""
    from harness.cli.datasets import listing, overview

    rows = listing()
    output.listing(rows if json else overview(rows), json)


@data_app.command("fetch", epilog="Example: privbench data fetch mnist cifar-10")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets; `privbench data list` names them.")],
    json: JsonOption = False,
) -> None:
    """Get data sets from their publishers into $PRIVBENCH_DATA, checked; a broken transfer is resumed."""
    from harness.cli.datasets import bars, fetched

    with bars(output.err) as progress:
        rows = fetched(names, progress)
    _outcome(rows, json)


@data_app.command("verify", epilog="Example: privbench data verify mnist")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; else every one that is here.")] = None,
    json: JsonOption = False,
) -> None:
    """Read data sets anew and check them against the published sums and the content we know."""
    from harness.cli.datasets import verified

    rows = verified(names or [])
    output.listing(rows, json)
    if any(row["state"] in ("damaged", "absent") for row in rows):
        raise typer.Exit(1)


@data_app.command("features", epilog="Example: privbench data features cifar10-effnet")
def data_features(
    banks: Annotated[
        list[str] | None, typer.Argument(help="Feature banks to make; else they are listed.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to use; else torch's choice.")] = None,
    json: JsonOption = False,
) -> None:
    """Make the features of frozen networks, once; what was broken off goes on where it ended."""
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
    """What became of each name; exit code 1 if one failed."""
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
