"""`privbench report`: figures, tables and the page, from the database."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import output
from harness.cli.options import (
    DatabaseOption,
    StoreOption,
    WhereOption,
    attack_names,
    report_folder,
    source,
    store_path,
)
from workloads.errors import SpecError

DRAWN_BY_LEAKAGE = ("frontier", "calibration", "all")
"""Reports with an axis of measured leakage."""


def report(
    kind: Annotated[
        Literal[
            "frontier",
            "overhead",
            "calibration",
            "compare",
            "audit",
            "reconstructions",
            "reproduce",
            "theory",
            "all",
        ],
        typer.Argument(help="Which report."),
    ] = "all",
    where: WhereOption = None,
    table: Annotated[
        str | None, typer.Option("--table", help="reproduce: a published table; default: an overview of all.")
    ] = None,
    form: Annotated[
        Literal["table", "md", "latex", "csv"] | None,
        typer.Option("--format", help="reproduce: the format of the output (default table)."),
    ] = None,
    columns: Annotated[
        Literal["1", "2"] | None,
        typer.Option("--columns", help="Figures for one (3.3 in) or both columns (7 in) of a paper."),
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option(
            "--attack",
            help="Draw leakage by this attack; default: the strongest.",
            autocompletion=attack_names,
        ),
    ] = None,
    fpr: Annotated[
        float | None, typer.Option("--fpr", help="Draw the TPR at 0.1, 0.01 (default), 0.001 or 0.0001.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder; default: reports/ in the store.")
    ] = None,
    store: StoreOption = None,
    database: DatabaseOption = None,
) -> None:
    """Write frontier, overhead, calibration and audit, and one self-contained page: `all`.

    Figures are PNG, SVG and PDF, tables Markdown, LaTeX and CSV; each carries its query, date and version.
    `calibration` compares methods at equal measured leakage, `compare` cells by paired tests; `audit` shows
    lower bounds on epsilon from canaries.
    `reconstructions` shows members next to their reconstructions by gradient inversion.
    `reproduce` shows published numbers next to ours, as text. `theory` draws the methods'
    own figures; it needs no store.
    """
    if (attack or fpr is not None) and kind not in DRAWN_BY_LEAKAGE:
        raise SpecError(f"--attack and --fpr choose the axis of leakage, and `report {kind}` has none")
    if kind == "reproduce":
        if columns:
            raise SpecError("--columns sizes figures, and `report reproduce` draws none: leave it out")
        folder = report_folder(out, store, database)
        return _reproduce(source(store, database), table, where, folder, form or "table")
    if table or form:
        raise SpecError(f"--table and --format belong to `report reproduce`, not to `report {kind}`")
    if database and kind in ("theory", "reconstructions"):
        raise SpecError(f"`report {kind}` reads the store's own files: leave --database out")
    if kind == "theory":
        return _theory(store_path(store), where, out, columns)
    from harness import report as reports
    from harness.report.figure.paper_sizes import SHEETS

    write: dict[str, Callable[..., list[Path]]] = {
        "frontier": reports.write_frontier,
        "overhead": reports.write_overhead,
        "calibration": reports.write_calibration,
        "compare": reports.write_compare,
        "audit": reports.write_audit,
        "reconstructions": reports.write_reconstructions,
        "all": reports.write_all,
    }
    axis = {"attack": attack, "fpr": fpr} if kind in DRAWN_BY_LEAKAGE else {}
    asked, folder = source(store, database), report_folder(out, store, database)
    for file in write[kind](asked, folder, where, SHEETS[columns], **axis):
        output.say(str(file))
    return None


def _reproduce(source: Path | str, table: str | None, where: str | None, out: Path, form: str) -> None:
    """Print the comparison in the given format and write it as Markdown, LaTeX and CSV."""
    from harness.report.reproduce import compare
    from harness.report.tables import RENDER, write_table
    from harness.results.collect import collect
    from harness.store import Store

    # Nothing was run yet: show every published number.
    if isinstance(source, Path) and not Store(source).database.exists():
        collect(source)
    found = compare(source, table, where)
    files = write_table(found, out)
    if form in RENDER:
        typer.echo(RENDER[form](found), nl=False)
        return
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    output.out.print(output.table(rows, title=found.title))
    output.say(found.counts)
    for number, text in enumerate(found.remarks, 1):
        output.say(f"[{number}] {text}")
    for text in found.protocol:
        output.say(f"- {text}")
    for file in files:
        output.say(str(file))


def _theory(path: Path, where: str | None, out: Path | None, columns: Literal["1", "2"] | None) -> None:
    """Write figure, data and tables; measured values come from the store's database, if there is one."""
    from harness.report.figure.paper_sizes import SHEETS
    from harness.report.theory_report import write_theory
    from harness.store import Store

    if where:
        raise SpecError("--where selects rows of a view, and `report theory` reads none: leave it out")
    store = Store(path)
    store.check()
    if out is None and not store.exists():
        raise SpecError(f"there is no store at {path} to put the report into: give --out DIR")
    measured = store.path if store.exists() and store.database.exists() else None
    for file in write_theory(out or store.reports, measured, SHEETS[columns]):
        output.say(str(file))
