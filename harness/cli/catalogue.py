"""`privbench list`, `show` and `check`: the members of each family, sweeps and published tables."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import output
from harness.cli.options import JsonOption, StoreOption, WideOption, member_names, store_path
from harness.cli.terminal.fitting import Layout
from workloads.errors import SpecError

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
        Literal["method", "workload", "attack", "sweep", "published", "tune"],
        typer.Argument(help="method, workload, attack, sweep, published, or a tune of the store."),
    ],
    name: Annotated[str, typer.Argument(help="Its name.", autocompletion=member_names)],
    trials: Annotated[bool, typer.Option("--trials", help="tune: every trial with its values.")] = False,
    store: StoreOption = None,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Show one member: parameters with defaults and help, guarantee, caveats, source.

    Of a published table, every line with its number, its figures, and why it cannot be run, if so. Of a
    tune: what was tried for each method and level, how it scored on non-members, and what was chosen.
    """
    if kind == "tune":
        return _show_tune(name, store, trials, wide, json)
    for option, given in {"--trials": trials, "--store": store}.items():
        if given:
            raise SpecError(
                f"{option} belongs to `show tune`, not to `show {kind}`", field=option, value=given
            )
    from harness.cli.members import page

    return output.page(page(kind, name), json, LINES if kind == "published" else MEMBERS, wide)


def _show_tune(name: str, store: Path | None, trials: bool, wide: bool, json: bool) -> None:
    from harness.cli.terminal.tune_text import print_tune
    from harness.store import Store
    from harness.store.tunes import find_tune

    record = find_tune(Store.open(store_path(store)), name)
    if json:
        output.json_out(record.model_dump())
    else:
        print_tune(record, trials, wide)


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
