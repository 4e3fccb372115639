"""`privbench list` and `privbench show`: the members of each family, and ready-made sweeps."""

from typing import Annotated, Literal

import typer

from harness.cli import output
from harness.cli.options import JsonOption, member_names

Kind = Literal["methods", "workloads", "attacks", "backends", "sweeps"]


def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")], json: JsonOption = False) -> None:
    """List methods, workloads, attacks, backends or ready-made sweeps."""
    from harness.cli.members import listing

    output.listing(listing(kind), json)


def show(
    kind: Annotated[
        Literal["method", "workload", "attack", "sweep"],
        typer.Argument(help="method, workload, attack or sweep."),
    ],
    name: Annotated[str, typer.Argument(help="Its name.", autocompletion=member_names)],
    json: JsonOption = False,
) -> None:
    """Show one member: parameters with defaults and help, guarantee, caveats, source."""
    from harness.cli.members import page

    output.page(page(kind, name), json)
