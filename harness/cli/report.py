"""`privbench report`: figures, tables and the page, from the database."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli import output
from harness.cli.options import (
    DatabaseOption,
    OfSweepOption,
    StoreOption,
    WhereOption,
    WideOption,
    attack_names,
    report_folder,
    source,
    store_path,
    stored_tunes,
)
from harness.cli.terminal.fitting import Layout
from workloads.errors import SpecError

if TYPE_CHECKING:
    from harness.report.tables import TextTable

DRAWN_BY_LEAKAGE = ("frontier", "calibration", "all")
"""Reports with an axis of measured leakage."""

TEXTS = {"reproduce": output.REPRODUCED, "baseline": output.BASELINES}
"""Reports without a figure."""


def report(
    kind: Annotated[
        Literal[
            "frontier",
            "overhead",
            "calibration",
            "compare",
            "audit",
            "attributes",
            "reconstructions",
            "reproduce",
            "baseline",
            "theory",
            "tune",
            "all",
        ],
        typer.Argument(help="Which report."),
    ] = "all",
    name: Annotated[
        str | None,
        typer.Argument(help="tune: which one; default: all.", autocompletion=stored_tunes),
    ] = None,
    where: WhereOption = None,
    sweep: OfSweepOption = None,
    table: Annotated[
        str | None, typer.Option("--table", help="reproduce: a published table; default: an overview of all.")
    ] = None,
    form: Annotated[
        Literal["table", "md", "latex", "csv"] | None,
        typer.Option("--format", help="reproduce, baseline: the format of the output (default table)."),
    ] = None,
    columns: Annotated[
        Literal["1", "2"] | None,
        typer.Option("--columns", help="Figures for one (3 in) or both columns (7 in) of a paper."),
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
    panel: Annotated[
        str | None,
        typer.Option(
            "--panel", help="Draw only these panels, e.g. frontier,roc; default: all, in one column one."
        ),
    ] = None,
    columns_of: Annotated[
        str | None,
        typer.Option("--columns-of", help="Columns of tables, e.g. cell,accuracy,auc; default: at most 7."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder; default: reports/ in the store.")
    ] = None,
    store: StoreOption = None,
    database: DatabaseOption = None,
    wide: WideOption = False,
) -> None:
    """Write frontier, overhead, calibration and audit, and one self-contained page: `all`.

    Figures are PNG, SVG and PDF, tables Markdown, LaTeX and CSV; each carries its query, date and version.
    `calibration` compares methods at equal measured leakage, `compare` cells by paired tests; `audit` shows
    lower bounds on epsilon from canaries; `attributes` compares attribute inference on members and others.
    `reconstructions` shows members next to their reconstructions by gradient inversion.
    `reproduce` shows published numbers next to ours, as text, and `baseline` the private baseline next to
    the best published line on the same data. `theory` draws the methods' own figures; it needs no store.
    `tune` draws what `privbench tune` tried and chose, and how much luck its studies show.
    """
    if name is not None and kind != "tune":
        raise SpecError(f"NAME is that of a tune, and `report {kind}` takes none", field="NAME", value=name)
    if (attack or fpr is not None) and kind not in DRAWN_BY_LEAKAGE:
        raise SpecError(f"--attack and --fpr choose the axis of leakage, and `report {kind}` has none")
    panels, chosen = split_names(panel, "--panel"), split_names(columns_of, "--columns-of")
    if kind in TEXTS:
        if columns or panels:
            raise SpecError(f"`report {kind}` draws no figure: leave --columns and --panel out")
        if table and kind != "reproduce":
            raise SpecError(f"--table belongs to `report reproduce`, not to `report {kind}`")
        folder = report_folder(out, store, database)
        found = _text(kind, source(store, database), table, where, sweep)
        return _print(found, TEXTS[kind], folder, form or "table", chosen, wide)
    if table or form:
        raise SpecError(f"--table and --format belong to `report reproduce`, not to `report {kind}`")
    if database and kind in ("theory", "reconstructions"):
        raise SpecError(f"`report {kind}` reads the store's own files: leave --database out")
    if kind == "theory":
        if sweep:
            raise SpecError("--sweep selects rows of a view, and `report theory` reads none: leave it out")
        return _theory(store_path(store), where, out, columns, chosen)
    from harness import report as reports
    from harness.report.figure.paper_sizes import choose_sheet

    sheet = choose_sheet(columns, kind, panels, chosen)

    write: dict[str, Callable[..., list[Path]]] = {
        "frontier": reports.write_frontier,
        "overhead": reports.write_overhead,
        "calibration": reports.write_calibration,
        "compare": reports.write_compare,
        "audit": reports.write_audit,
        "attributes": reports.write_attributes,
        "reconstructions": reports.write_reconstructions,
        "tune": reports.write_tune,
        "all": reports.write_all,
    }
    axis: dict[str, Any] = {"attack": attack, "fpr": fpr} if kind in DRAWN_BY_LEAKAGE else {}
    axis |= {"name": name} if kind == "tune" else {}
    asked, folder = source(store, database), report_folder(out, store, database)
    for file in write[kind](asked, folder, where, sheet, **axis, sweep=sweep):
        output.say(str(file))
    return None


def split_names(text: str | None, option: str) -> list[str]:
    """The names of an option that takes a list with commas; SpecError if one is empty."""
    names = [] if text is None else [name.strip() for name in text.split(",")]
    if "" in names:
        raise SpecError(
            f"{option} takes names with commas between them, got {text!r}", field=option, value=text
        )
    return names


def _text(
    kind: str, asked: Path | str, table: str | None, where: str | None, sweep: str | None
) -> "TextTable":
    """The table of a report that draws nothing."""
    from harness.results.collect import collect
    from harness.store import Store

    # Nothing was run yet: show every published number.
    if isinstance(asked, Path) and not Store(asked).database.exists():
        collect(asked)
    if kind == "reproduce":
        from harness.report.published.reproduce import compare

        return compare(asked, table, where, sweep)
    from harness.report.published.weak_baselines import tabulate_baselines

    return tabulate_baselines(asked, where, sweep)


def _print(
    table: "TextTable", layout: Layout, out: Path, form: str, columns: Sequence[str], wide: bool
) -> None:
    """Print a table in the given format and write it as Markdown, LaTeX and CSV."""
    from harness.report.tables import RENDER, write_table
    from harness.report.text_table import choose_columns

    (found,) = choose_columns([table], columns)
    files = write_table(found, out)
    if form in RENDER:
        typer.echo(RENDER[form](found), nl=False)
        return
    output.text_table(found, layout, wide, "--wide, or the files below")
    for file in files:
        output.say(str(file))


def _theory(
    path: Path,
    where: str | None,
    out: Path | None,
    columns: Literal["1", "2"] | None,
    chosen: Sequence[str],
) -> None:
    """Write figure, data and tables; measured values come from the store's database, if there is one."""
    from harness.report.figure.paper_sizes import choose_sheet
    from harness.report.theory_report import write_theory
    from harness.store import Store

    if where:
        raise SpecError("--where selects rows of a view, and `report theory` reads none: leave it out")
    store = Store(path)
    store.check()
    if out is None and not store.exists():
        raise SpecError(f"there is no store at {path} to put the report into: give --out DIR")
    measured = store.path if store.exists() and store.database.exists() else None
    for file in write_theory(out or store.reports, measured, choose_sheet(columns, "theory", (), chosen)):
        output.say(str(file))
