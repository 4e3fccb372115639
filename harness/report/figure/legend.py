"""The legend of a figure of cells: its methods with their marks and guarantees, and the signs that occur."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.report.figure.artists import dashed
from harness.report.figure.marks import Mark
from harness.report.figure.paper_sizes import SCREEN, Sheet, scaled
from harness.report.figure.style import ALARM, FAINT, INK, KINDS, UNKNOWN_KIND, darken, shorten
from harness.report.reading import Row

LINE = 0.22
"""Height of a line of the legend on a screen, in inches."""
Groups = Sequence[Sequence[Artist]]
LUCK: dict[str, Any] = {"lw": 5, "alpha": 0.3, "solid_capstyle": "butt"}
"""The bar of the range over the studies of a tune."""


def method_signs(rows: Iterable[Row], marks: Mapping[str, Mark]) -> list[Line2D]:
    """One entry per method among the rows, in the order of `marks`: its mark and kinds of guarantee."""
    kinds = kinds_of(rows)
    return [_sign(mark, name_method(name, kinds[name])) for name, mark in marks.items() if name in kinds]


def _sign(mark: Mark, label: str) -> Line2D:
    edge = darken(mark.colour, 0.75)
    return Line2D(
        [], [], color=mark.colour, marker=mark.marker, ms=scaled(7), mec=edge, lw=scaled(1.6), label=label
    )


def kinds_of(rows: Iterable[Row]) -> dict[str, list[str]]:
    """By method, the names of the kinds of guarantee of its rows."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["method"]].add(KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[0])
    return {name: sorted(kinds) for name, kinds in found.items()}


def name_method(name: str, kinds: Sequence[str]) -> str:
    """A method with its guarantee (docs/rules.md: kinds do not mix); nothing is added where it has none."""
    stated = [kind for kind in kinds if kind != KINDS["none"][0]]
    return f"{shorten(name, 18)} ({', '.join(stated)})" if stated else shorten(name, 18)


def cell_signs(
    single: bool, invalid: bool, front: bool, near: bool, untuned: bool = False, studies: bool = False
) -> list[Artist]:
    """The signs that occur: one model, a failed blind check, the front and its neighbours; guessing."""
    plain: dict[str, Any] = {"color": INK, "ls": "", "ms": scaled(7)}
    signs = {
        "one model": (single, {"marker": "o", "mfc": "none", **plain}),
        "blind check failed": (invalid, {"marker": "x", **plain, "color": ALARM, "mew": 1.8}),
        "front of valid cells": (front, {"color": INK, "lw": 1, "alpha": 0.55}),
        "indistinguishable from the front": (near, ring()),
        "guessing": (True, {"color": FAINT, "lw": 1, "ls": ":"}),
    }
    found: list[Artist] = [
        Line2D([], [], label=name, **look) for name, (there, look) in signs.items() if there
    ]
    if studies:
        found.insert(0, Line2D([], [], label="range over a tune's studies", color=FAINT, **LUCK))
    if untuned:
        found.insert(0, untuned_sign())
    return found


def untuned_sign() -> Artist:
    """A hollow marker with an edge of dashes: a cell that shows a setting, not its method."""
    look = {"marker": "o", "ms": scaled(7), "mec": INK, "mew": 1.1}
    return Figure().add_subplot().scatter([], [], label="not tuned", **dashed(look))


def ring() -> dict[str, Any]:
    """The ring around a cell that is indistinguishable from the front."""
    return {"marker": "o", "ms": scaled(13), "mfc": "none", "mec": FAINT, "mew": 0.9, "ls": ""}


def legend_height(groups: Groups, sheet: Sheet, own: float) -> float:
    """Inches of all groups below each other in a figure that is `own` inches wide on a screen."""
    lines = sum(math.ceil(len(group) / _across(group, sheet.inches(own))) for group in groups if group)
    return LINE * sheet.font / SCREEN.font * lines


def draw_legend(part: Any, groups: Groups, top: float, height: float, sheet: Sheet, own: float) -> None:
    """Draw the groups from `top` inches below the upper end of a part that is `height` inches high."""
    for group in groups:
        if not group:
            continue
        part.legend(
            handles=group,
            loc="upper left",
            bbox_to_anchor=(0.008, 1 - top / height),
            scatterpoints=1,
            ncols=_across(group, sheet.inches(own)),
            borderaxespad=0,
            borderpad=0.2,
            columnspacing=1.4,
        ).set_in_layout(False)
        top += legend_height([group], sheet, own)


def _across(group: Sequence[Artist], width: float) -> int:
    """Entries on one line."""
    inches = [(0.55 * len(str(sign.get_label())) + 4.5) * scaled(SCREEN.font) / 72 for sign in group]
    for across in range(len(group), 1, -1):
        lines = math.ceil(len(group) / across)
        columns = [inches[place : place + lines] for place in range(0, len(group), lines)]
        if sum(map(max, columns)) <= width:
            return across
    return 1
