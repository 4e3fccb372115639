"""The figure of a tune: accuracy on non-members against every searched axis, for each method and level."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from harness.report.figure.legend import draw_legend, legend_height
from harness.report.figure.marks import PALETTE
from harness.report.figure.paper_sizes import SCREEN, Sheet, panel_width, scaled, wrap
from harness.report.figure.style import ALARM, FAINT, INK, log_ticks, new_figure, percent_ticks, shorten
from harness.report.tuning.trial_points import (
    Block,
    TrialPoint,
    limits_of,
    luck_of,
    points_of,
    reference_of,
)
from harness.store.tunes import AxisRecord, SearchRecord

WIDTH = 13.5
"""Inches on a screen."""
HEIGHT = 2.15
"""Of a row of panels on a screen, in inches; less than print's, since there are many."""
MARKERS = ("o", "s", "D", "^", "v", "P")
ACROSS = {3: 6, 2: 5, 1: 2}
"""Panels side by side, by how many large ones a sheet has."""
OUTSIDE = "#eeeeee"
READ_AS = (
    "Accuracy is on non-members of the pool, by which a tune chooses; test records are not read. "
    "A point is a trial, mean over its models; its bar spans them. All methods share the points of a study. "
    "The spread of the studies' choices is the luck of the search: a difference between methods below it is "
    "not settled. The search is not priced."
)


def tune_figure(block: Block, sheet: Sheet = SCREEN) -> Figure:
    """Two rows per method and level: its outcome in words, then the studies and every searched axis."""
    width, scale = sheet.inches(WIDTH), sheet.font / SCREEN.font
    across = ACROSS[sheet.across]
    signs, title = [_signs(block)], 0.4 * (not sheet.printed) * scale
    notes = "" if sheet.printed else wrap(READ_AS, width, 8)
    texts = [_texts(each, width) for each in block.searches]
    lines = [-(-(1 + len(each.axes)) // across) for each in block.searches]
    heights = [0.12 + title + legend_height(signs, sheet, WIDTH)]
    for (head, warned), line in zip(texts, lines, strict=True):
        count = len(head.splitlines()) + len(warned.splitlines())
        heights += [0.17 * scale * count + 0.06, line * (1.6 if sheet.printed else HEIGHT)]
    heights += [(0.2 + 0.16 * len(notes.splitlines())) * scale] if notes else []
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    if title:
        text = f"{shorten(block.workload, 60)}: what tune {shorten(block.key)} tried"
        parts[0].text(0.01, 1 - 0.2 / heights[0], text, fontsize=scaled(14), weight="bold", va="center")
    draw_legend(parts[0], signs, 0.05 + title, heights[0], sheet, WIDTH)
    for place, (search, (head, warned), line) in enumerate(zip(block.searches, texts, lines, strict=True)):
        above, part, height = parts[1 + 2 * place], parts[2 + 2 * place], heights[1 + 2 * place]
        above.text(0.01, 1 - 0.05 / height, head, fontsize=scaled(9.5), weight="bold", va="top")
        below = 0.05 + 0.17 * scale * len(head.splitlines())
        above.text(0.01, 1 - below / height, warned, fontsize=scaled(8), color=ALARM, va="top")
        grid = part.add_gridspec(line, across)
        count = 1 + len(search.axes)
        panels = [part.add_subplot(grid[divmod(each, across)]) for each in range(count)]
        _draw_search(panels, block, search, across)
    if notes:
        parts[-1].text(0.01, 1.0, notes, fontsize=scaled(8), va="top")
    return figure


def _texts(search: SearchRecord, width: float) -> tuple[str, str]:
    """The outcome of a search in words, and its warnings."""
    warned = "\n".join(wrap(f"! {each.text}", width, 8) for each in search.warnings)
    return wrap(describe_search(search), width, 10), warned


def describe_search(search: SearchRecord) -> str:
    """What a run takes, how far the studies are apart, and what the workload's own recipe reaches."""
    luck, name = luck_of(search), shorten(search.label, 48)
    if luck is None or search.chosen is None:
        return f"{name}: nothing was trained"
    low, high = (100 * each for each in luck)
    parts = [f"{name}: {100 * search.chosen.score:.1f} % taken"]
    if len(search.winners) > 1:
        parts.append(f"the studies choose {low:.1f} to {high:.1f} %, {high - low:.1f} points of luck")
    reference = reference_of(search)
    if reference is not None:
        parts.append(f"own recipe {100 * reference:.1f} %")
    return "; ".join(parts)


def _signs(block: Block) -> list[Line2D]:
    """The legend: studies by colour and marker, what became of a trial, and the lines."""
    plain: dict[str, Any] = {"ls": "", "color": FAINT, "marker": "o"}
    searches = block.searches
    studies = dict.fromkeys(study.number for each in searches for study in each.studies)
    signs = [
        Line2D([], [], ms=scaled(6), label=f"study {study}", **{**plain, **_look(place)})
        for place, study in enumerate(studies)
    ]
    if block.record.confirm:
        signs.append(Line2D([], [], mec=INK, mew=0.8, ms=scaled(5.5), label="confirmed", **plain))
    signs.append(Line2D([], [], mec=INK, mew=1.4, ms=scaled(8), label="chosen by its study", **plain))
    signs.append(
        Line2D([], [], mec=INK, mew=1.0, ms=scaled(12), label="taken by a run", **{**plain, "marker": "*"})
    )
    if any(point.failed for each in searches for point in points_of(block.record, each)):
        signs.append(Line2D([], [], ms=scaled(6), label="diverged or failed", **{**plain, "marker": "x"}))
    if any(each.reference for each in searches):
        signs.append(Line2D([], [], color=INK, lw=1, ls="--", label="own recipe"))
    if any(each.majority is not None for each in searches):
        signs.append(Line2D([], [], color=ALARM, lw=1, ls=":", label="most common class"))
    signs.append(Line2D([], [], color=OUTSIDE, lw=6, label="outside the search"))
    return signs


def _look(place: int) -> dict[str, Any]:
    """The colour and marker of a study."""
    return {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}


def _draw_search(panels: Sequence[Axes], block: Block, search: SearchRecord, across: int) -> None:
    points = list(points_of(block.record, search))
    low, high = limits_of(points, search)
    studies = {study.number: place for place, study in enumerate(search.studies)}
    for place, (axes, axis) in enumerate(zip(panels, [None, *search.axes_in_order], strict=True)):
        for point in points:
            look = _look(studies[point.study])
            x = _beside(point, studies) if axis is None else point.places[axis.name]
            _draw_point(axes, x, point, look, low)
        if axis is None:
            axes.set_xticks(range(len(studies)), [str(study) for study in studies])
            axes.set_xlim(-0.6, len(studies) - 0.4)
            axes.set_xlabel("study")
        else:
            _dress(axes, axis)
        if place % across:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("validation accuracy")
        axes.set_ylim(low, high)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        percent_ticks(axes.yaxis)
        axes.tick_params(labelsize=scaled(8))
        reference = reference_of(search)
        if reference is not None:
            axes.axhline(reference, color=INK, lw=0.9, ls="--", zorder=1)
        if search.majority is not None:
            axes.axhline(search.majority, color=ALARM, lw=1, ls=":", zorder=1)


def _beside(point: TrialPoint, studies: dict[int, int]) -> float:
    """The place of a trial in the panel of studies: beside others by its number, a choice in the middle."""
    if point.standing in ("chosen", "taken"):
        return float(studies[point.study])
    return studies[point.study] + 0.09 * (point.number % 5 - 2)


def _draw_point(axes: Axes, x: float, point: TrialPoint, look: dict[str, Any], low: float) -> None:
    """A trial with the range of its models; one that failed below the others, at the lower edge."""
    if point.failed and point.score <= low:
        axes.plot(x, low, marker="x", ms=scaled(5), color=look["color"], mew=1.2, clip_on=False, zorder=4)
        return
    if point.standing == "tried":
        axes.plot(x, point.score, ms=scaled(4), alpha=0.55, mew=0, zorder=2, **look)
        return
    axes.vlines(x, point.low, point.high, color=look["color"], lw=1, alpha=0.7, zorder=3)
    shape: dict[str, Any] = {"mec": INK, "mew": 0.8, "ms": scaled(5), "zorder": 4}
    if point.standing == "chosen":
        shape |= {"mew": 1.4, "ms": scaled(7.5), "zorder": 5}
    if point.standing == "taken":
        shape |= {"mew": 1.0, "ms": scaled(13), "marker": "*", "zorder": 6}
    axes.plot(x, point.score, **{**look, **shape})


def _dress(axes: Axes, axis: AxisRecord) -> None:
    """Name and scale of a searched axis; grey is outside its bounds."""
    axes.set_xlabel(wrap(axis.label, 1.15 * panel_width(axes), SCREEN.font))
    if axis.choices:
        axes.set_xticks(range(len(axis.choices)), [shorten(each, 10) for each in axis.choices])
        axes.set_xlim(-0.5, len(axis.choices) - 0.5)
        return
    if axis.scale == "log":
        axes.set_xscale("log")
        span = (axis.high / axis.low) ** 0.06
        ends = axis.low / span, axis.high * span
        log_ticks(axes.xaxis)
        decades = math.log10(axis.high / axis.low)
        axes.xaxis.set_major_locator(
            LogLocator(subs=(1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.3 else (1.0, 2.0, 5.0))
        )
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        span = 0.06 * (axis.high - axis.low)
        ends = axis.low - span, axis.high + span
        axes.xaxis.set_major_locator(MaxNLocator(4))
    for inner, outer in zip((axis.low, axis.high), ends, strict=True):
        axes.axvspan(*sorted((inner, outer)), color=OUTSIDE, lw=0, zorder=0)
    axes.set_xlim(*ends)
