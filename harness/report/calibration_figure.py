"""The calibration figure: accuracy of each method at equal leakage, and ROC curves under their ceilings."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.calibration import (
    NEARNESS,
    NOTES,
    Calibration,
    Curve,
    calibrate,
    calibrate_pictures,
    calibration_tables,
)
from harness.report.figure.artists import Marks
from harness.report.figure.marks import Mark, assign_marks
from harness.report.figure.panels import DRAWN, say_thinned, spread
from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import (
    FAINT,
    LINES,
    empty_figure,
    explain_empty,
    house_style,
    new_figure,
    percent_ticks,
    save,
    shorten,
)
from harness.report.leakage import AUC, resolved_fpr
from harness.report.metadata import Imprint
from harness.report.reading import Reading, Roc, read
from harness.report.tables import write_tables
from harness.report.text_table import choose_columns
from harness.results.query import Source

TITLE = "Methods at equal measured leakage"
CURVES = 6
"""ROC curves in one panel, at most."""


def write_calibration(
    store: Source,
    out: Path,
    where: str | None = None,
    sheet: Sheet = SCREEN,
    attack: str | None = None,
    fpr: float | None = None,
    sweep: str | None = None,
) -> list[Path]:
    """Write the figure, and a table per group and axis.

    `where` is an SQL condition on the view `frontier`; `attack` and `fpr` choose the axis of leakage.
    """
    return draw_calibration(read(store, where, attack=attack, fpr=fpr, sweep=sweep), out, sheet)


def draw_calibration(reading: Reading, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows already read."""
    found = [
        *calibrate(reading.frontier, reading.attack, reading.fpr),
        *calibrate_pictures(reading.reconstructions),
    ]
    tables = choose_columns(calibration_tables(found, reading.query), sheet.columns)
    with house_style(sheet):
        figure = calibration_figure(reading, found, sheet)
        files = save(figure, out, "calibration", Imprint(TITLE, reading.query, "\n".join(NOTES)))
    return [*files, *write_tables("calibration", tables, out)]


def calibration_figure(reading: Reading, found: Sequence[Calibration], sheet: Sheet = SCREEN) -> Figure:
    """A row of panels per group: its axes of leakage, then ROC curves with their ceilings."""
    if not found:
        return empty_figure(TITLE, explain_empty(reading), sheet)
    groups = [
        chosen for _, each in groupby(found, key=lambda each: each.group) if (chosen := choose(each, sheet))
    ]
    marks = assign_marks(
        [*reading.methods, *(row["method"] for each in found for row in each.rows)], reading.baselines
    )
    width = sheet.inches(13.5)
    heights = [sheet.lines(len(each)) * sheet.height(3.9) for each in groups]
    figure = new_figure(width, 0.7 * (not sheet.printed) + sum(heights))
    if not sheet.printed:
        figure.suptitle(TITLE, x=0.01, ha="left", weight="bold", fontsize=scaled(13))
    parts: Any = figure.subfigures(len(groups), 1, squeeze=False, height_ratios=heights)
    for part, panels in zip(parts[:, 0], groups, strict=True):
        if not sheet.printed or len(groups) > 1:
            head = wrap(shorten(panels[0][1].group, 90), width, 10)
            part.suptitle(head, x=0.01, ha="left", fontsize=scaled(10))
        for axes, (name, each) in zip(lay_out(part, len(panels), sheet), panels, strict=True):
            if name == "roc":
                draw_ceilings(axes, each, reading, marks)
            else:
                draw_offers(axes, each, marks)
    return figure


def choose(found: Iterable[Calibration], sheet: Sheet) -> list[tuple[str, Calibration]]:
    """The panels of one group to draw: its axes of leakage, and the ROC, which pictures lack."""
    own = list(found)
    panels = {"auc" if each.leakage is AUC else "frontier": each for each in own}
    if own[0].leakage is not NEARNESS:
        panels["roc"] = own[0]
    if "frontier" not in panels and sheet.panels_of("calibration") == ("frontier",):
        return [("auc", own[0])]  # no TPR is resolved
    return [(name, panels[name]) for name in sheet.panels_of("calibration") if name in panels]


def draw_offers(axes: Axes, found: Calibration, marks: Mapping[str, Mark]) -> None:
    """Every method's front with its band and its cells."""
    column = found.leakage.column
    reach = max((row[column] for curve in found.curves for row in curve.rows), default=1.0)
    for curve in found.curves:
        _draw_curve(axes, curve, reach, marks[curve.method])
    points = Marks()
    for row in spread(found.rows, DRAWN):
        if row[column] is not None and row["accuracy"] is not None:
            mark = marks[row["method"]]
            look: dict[str, Any] = {
                "mfc": "none" if row["models"] == 1 else mark.colour,
                "color": mark.colour,
            }
            points.add(row[column], row["accuracy"], marker=mark.marker, ms=scaled(6), **look)
    points.draw(axes)
    if found.leakage is not NEARNESS:
        axes.axvline(found.leakage.chance, color=FAINT, linestyle=":", linewidth=0.8)
    thinned = say_thinned(DRAWN, len(found.rows))
    text = f"{found.leakage.name} at most (attack {shorten(found.attack)}){thinned}"
    axes.set_xlabel(wrap(text, panel_width(axes), SCREEN.font))
    axes.set_ylabel("accuracy at this leakage or less")
    percent_ticks(axes.yaxis, *[axes.xaxis] * (found.leakage.fpr is not None))
    if found.curves:
        axes.legend(fontsize=scaled(8), loc="best")


def _draw_curve(axes: Axes, curve: Curve, reach: float, mark: Mark) -> None:
    colour = mark.colour
    start = curve.rows[0][curve.leakage.column]
    levels = [float(level) for level in np.linspace(start, max(reach, start), 200)]
    offers = [offer for level in levels if (offer := curve.at(level)) is not None]
    how: dict[str, Any] = {} if curve.leakage.mixes else {"drawstyle": "steps-post"}
    axes.plot(levels, [offer.accuracy for offer in offers], color=colour, lw=1.5, **how)
    label = shorten(curve.method)
    axes.plot([], [], color=colour, lw=1.5, marker=mark.marker, ms=scaled(6), label=label)
    banded = [(level, o) for level, o in zip(levels, offers, strict=True) if o.low is not None]
    if banded:
        low, high = ([getattr(offer, end) for _, offer in banded] for end in ("low", "high"))
        step: Any = None if curve.leakage.mixes else "post"
        axes.fill_between([x for x, _ in banded], low, high, color=colour, alpha=0.15, lw=0, step=step)


def draw_ceilings(axes: Axes, found: Calibration, reading: Reading, marks: Mapping[str, Mark]) -> None:
    """ROC curves of the attack, log-log, each from the lowest FPR that its non-members resolve; thin, in the
    same style, the ceiling of the guarantee."""
    priced = [row for row in found.rows if row["ceiling_by"] is not None]
    known = {row["cell"] for row in priced}
    drawn = [*priced, *(row for row in found.rows if row["cell"] not in known)][:CURVES]
    lowest = min((resolved_fpr(row) for row in drawn), default=1e-2)
    rates = np.logspace(math.log10(lowest), 0, 200)
    for place, row in enumerate(drawn):
        mark = marks[row["method"]]
        look: dict[str, Any] = {"color": mark.colour, "linestyle": LINES[place % len(LINES)]}
        points: dict[str, Any] = {"marker": mark.marker, "markevery": 0.2, "ms": scaled(4)}
        roc = reading.rocs.get(row["attack_task"], Roc([], []))
        kept = [(f, t) for f, t in zip(roc.fpr, roc.tpr, strict=True) if f >= resolved_fpr(row) and t > 0]
        axes.plot(
            [f for f, _ in kept],
            [t for _, t in kept],
            lw=1.4,
            label=shorten(row["label"], 34),
            **look,
            **points,
        )
        if row["cell"] in known:
            most = reading.ceilings[row["cell"]]
            axes.plot(rates, np.interp(rates, most.fpr, most.tpr), lw=0.7, **look)
    axes.plot(rates, rates, color=FAINT, linestyle=":", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(lowest, 1)
    axes.set_ylim(lowest, 1.1)
    percent_ticks(axes.xaxis, axes.yaxis)
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate (thin: ceiling)")
    axes.legend(fontsize=scaled(7), loc="lower right")
