"""`privbench list`, `show` and `check`: the members of each family, sweeps and published tables."""

from typing import Annotated, Literal

import typer

from harness.cli import output
from harness.cli.options import JsonOption, WideOption, member_names
from harness.cli.terminal.fitting import Layout

Kind = Literal["methods", "workloads", "attacks", "backends", "sweeps", "published"]

MEMBERS = Layout(
    drop=("tried", "note", "source", "tuned", "printed"),
    keep=("name", "about", "parameter", "default", "value"),
)
LINES = Layout(group="workload", drop=("runs", "members"), keep=("line", "method", "figures", "runnable"))
"""Lines of a published table."""


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """List methods, workloads, attacks, backends, ready-made sweeps or published tables."""
    from harness.cli.members import broken, listing

    output.listing(listing(kind), json, MEMBERS, wide)
    if names := broken(kind):
        output.hint(f"not listed, since they do not load: {', '.join(names)}; `privbench doctor` states why")


def show(
    kind: Annotated[
        Literal["method", "workload", "attack", "sweep", "published"],
        typer.Argument(help="method, workload, attack, sweep or published."),
    ],
    name: Annotated[str, typer.Argument(help="Its name.", autocompletion=member_names)],
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Show one member: parameters with defaults and help, guarantee, caveats, source.

    Of a published table, every line with its number, its figures, and why it cannot be run, if so.
    """
    from harness.cli.members import page

    output.page(page(kind, name), json, LINES if kind == "published" else MEMBERS, wide)


def check(
    kind: Annotated[
        Literal["workload", "method", "attack"], typer.Argument(help="workload, method or attack.")
    ],
    name: Annotated[str, typer.Argument(help="Its name.", autocompletion=member_names)],
    json: JsonOption = False,
) -> None:
    """Hold one member to the contract of its family, on small data: seconds to a minute.

    Exit code 1 if a check fails.
    """
    from dataclasses import asdict

    from harness.checks import check_member

    count, findings = check_member(kind, name)
    found = []
    for number, finding in enumerate(findings, 1):
        found.append(finding)
        if not json:
            output.finding(number, count, finding)
    failed = sum(each.state == "failed" for each in found)
    if json:
        output.json_out([asdict(each) for each in found])
    else:
        skipped = sum(each.state == "skipped" for each in found)
        left = f" ({skipped} of {count} checks skipped)" if skipped else ""
        output.say(
            f"{kind} {name}: {failed} of {count} checks failed." if failed else f"{kind} {name} holds{left}."
        )
    if failed:
        raise typer.Exit(1)
