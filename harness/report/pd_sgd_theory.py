"""`privbench report pd-sgd-theory`: what PD-SGD's privacy test lets pass, drawn and in numbers.

pd-sgd-theory.png, .svg   Lemmas 1 and 2, Corollary 1, Table 13, Figures 1 and 3
pd-sgd-theory.csv         every point that is drawn
pd-sgd-theory.md          the numbers one looks up
"""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from harness.deniability import half_accepted_at, normalised_distance, rejected_from
from harness.report.pd_sgd_curves import BOUNDS, DELTAS, GAMMAS, Curve, experiment, settings, theory
from harness.report.pd_sgd_figure import draw
from harness.report.style import house_style, save_as

STEM = "pd-sgd-theory"
TITLE = "PD-SGD: what its privacy test lets pass"
ABOUT = "Lemmas 1 and 2, Corollary 1, Table 13, Figures 1 and 3 of the PD-SGD paper"

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
"""Title, columns, rows."""


def write_theory(out: Path, store: Path | None = None) -> list[Path]:
    """Write figure, data and tables into `out`; Figure 3 from the database of `store`, where one is given."""
    curves = [*theory(), *(experiment(store) if store else [])]
    with house_style():
        figures = save_as(draw(curves, TITLE), out, STEM, TITLE, ABOUT)
    data, tables = out / f"{STEM}.csv", out / f"{STEM}.md"
    write_points(curves, data)
    text = "\n".join(as_markdown(*table) for table in (distances(), probabilities(), half_acceptances()))
    tables.write_text(f"# {TITLE}\n\n{text}", encoding="utf-8")
    return [*figures, data, tables]


def write_points(curves: Sequence[Curve], file: Path) -> None:
    """One row per drawn point; where a bound does not hold there is none."""
    with file.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(("panel", "curve", "gamma", "x", "y"))
        for curve in curves:
            for x, y in zip(curve.x, curve.y, strict=True):
                if not math.isnan(y):
                    writer.writerow((curve.panel, curve.name, curve.gamma, x, y))


def distances() -> Table:
    """From where a batch passes with probability delta at most."""
    rows = []
    for delta in DELTAS:
        for gamma in GAMMAS:
            x = rejected_from(gamma, delta)
            normalised = [f"{normalised_distance(sigma, gamma, delta):.6f}" for sigma in (0.1, 1.0)]
            rows.append((f"{delta:g}", f"{gamma:g}", f"{x:.4f}", f"{x**2:.4f}", *normalised))
    columns = ("delta", "gamma", "distance / sigma", "d* / sigma^2", "sqrt(d*/k), sigma 0.1", "sigma 1")
    return "Distance from which a batch passes with probability delta at most (Figure 1)", columns, rows


def probabilities() -> Table:
    """q and its bounds at some distances."""
    rows = []
    for gamma in GAMMAS:
        for x in (1.0, 2.0, 3.0, 5.0, 10.0):
            found = [float(bound(x, gamma)) for bound in BOUNDS.values()]
            told = ["-" if math.isnan(value) else f"{value:.6g}" for value in found]
            rows.append((f"{gamma:g}", f"{x:g}", *told))
    columns = ("gamma", "distance / sigma", *BOUNDS)
    return "Probability that a batch passes, and its bounds where they hold", columns, rows


def half_acceptances() -> Table:
    """The paper's settings, and how far apart half of the batches pass in them."""
    rows = []
    for row in settings():
        x = half_accepted_at(row["gamma"])
        given = [f"{row[name]:g}" for name in ("sigma", "gamma", "T")]
        rows.append((row["workload"], row["setting"], *given, f"{x:.4g}", f"{row['sigma'] * x:.4g}"))
    columns = ("workload", "setting", "sigma", "gamma", "T", "distance / sigma", "distance")
    return "Settings of Table 13, and the distance at which about half of the batches pass", columns, rows


def as_markdown(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A heading and a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return f"## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
