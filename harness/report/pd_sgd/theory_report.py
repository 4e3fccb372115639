"""`privbench report pd-sgd-theory`: what PD-SGD's privacy test lets pass, drawn and in numbers.

pd-sgd-theory.png, .svg, .pdf   Lemmas 1 and 2, Corollary 1, Table 13, Figures 1 and 3
pd-sgd-theory.csv               every point that is drawn
pd-sgd-theory.md, .tex          the numbers one looks up; one .csv for each table
"""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from harness.report.figure.paper_sizes import SCREEN, Sheet
from harness.report.figure.style import house_style, save
from harness.report.metadata import Imprint
from harness.report.pd_sgd.curves import BOUNDS, DELTAS, GAMMAS, Curve, experiment, settings, theory
from harness.report.pd_sgd.theory import half_accepted_at, normalised_distance, rejected_from
from harness.report.pd_sgd.theory_figure import draw
from harness.report.tables import TextTable, write_tables
from harness.results.query import Source

STEM = "pd-sgd-theory"
TITLE = "PD-SGD: what its privacy test lets pass"
ABOUT = "Lemmas 1 and 2, Corollary 1, Table 13, Figures 1 and 3 of the PD-SGD paper"


def write_theory(out: Path, store: Source | None = None, sheet: Sheet = SCREEN) -> list[Path]:
    """Write figure, data and tables into `out`; Figure 3 from the database of `store`, where one is given."""
    curves = [*theory(), *(experiment(store) if store else [])]
    with house_style(sheet):
        figures = save(draw(curves, TITLE, sheet), out, STEM, Imprint(TITLE, ABOUT))
    data = out / f"{STEM}.csv"
    write_points(curves, data)
    return [*figures, data, *write_tables(STEM, [distances(), probabilities(), half_acceptances()], out)]


def write_points(curves: Sequence[Curve], file: Path) -> None:
    """One row per drawn point; where a bound does not hold there is none."""
    with file.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(("panel", "curve", "gamma", "x", "y"))
        for curve in curves:
            for x, y in zip(curve.x, curve.y, strict=True):
                if not math.isnan(y):
                    writer.writerow((curve.panel, curve.name, curve.gamma, x, y))


def distances() -> TextTable:
    """From where a batch passes with probability delta at most."""
    rows = []
    for delta in DELTAS:
        for gamma in GAMMAS:
            x = rejected_from(gamma, delta)
            normalised = [f"{normalised_distance(sigma, gamma, delta):.6f}" for sigma in (0.1, 1.0)]
            rows.append((f"{delta:g}", f"{gamma:g}", f"{x:.4f}", f"{x**2:.4f}", *normalised))
    columns = ("delta", "gamma", "distance / sigma", "d* / sigma^2", "sqrt(d*/k), sigma 0.1", "sigma 1")
    return _table(
        "Distance from which a batch passes with probability delta at most (Figure 1)", columns, rows
    )


def probabilities() -> TextTable:
    """q and its bounds at some distances."""
    rows = []
    for gamma in GAMMAS:
        for x in (1.0, 2.0, 3.0, 5.0, 10.0):
            found = [float(bound(x, gamma)) for bound in BOUNDS.values()]
            told = ["-" if math.isnan(value) else f"{value:.6g}" for value in found]
            rows.append((f"{gamma:g}", f"{x:g}", *told))
    columns = ("gamma", "distance / sigma", *BOUNDS)
    return _table("Probability that a batch passes, and its bounds where they hold", columns, rows)


def half_acceptances() -> TextTable:
    """The paper's settings, and how far apart half of the batches pass in them."""
    rows = []
    for row in settings():
        x = half_accepted_at(row["gamma"])
        given = [f"{row[name]:g}" for name in ("sigma", "gamma", "T")]
        rows.append((row["workload"], row["setting"], *given, f"{x:.4g}", f"{row['sigma'] * x:.4g}"))
    columns = ("workload", "setting", "sigma", "gamma", "T", "distance / sigma", "distance")
    title = "Settings of Table 13, and the distance at which about half of the batches pass"
    return _table(title, columns, rows)


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> TextTable:
    return TextTable(STEM, title, columns, tuple(rows), counts=f"{len(rows)} lines.", query=ABOUT)
