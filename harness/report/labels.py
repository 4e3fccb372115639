"""Texts beside points of a plot, placed so that they do not cover each other, other points or error bars."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

RINGS = (7.0, 15.0, 25.0, 37.0)
"""Distances from the point to try, in points (1/72 inch)."""
DIRECTIONS = 12
MARKER = 4.5
"""Half the side of the square that a marker takes, in points."""


FONT = 8


@dataclass(frozen=True)
class Label:
    """A text for the data point (x, y), whose error bars reach over these ranges."""

    x: float
    y: float
    text: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]


@dataclass(frozen=True)
class Place:
    """Where a text could stand: its box in pixels, its offset in points, and its distance from the point."""

    box: Bbox
    offset: tuple[float, float]
    distance: float


def place_labels(
    figure: Figure, axes: Axes, labels: Sequence[Label], line: Sequence[tuple[float, float]] = ()
) -> None:
    """Write each text at the free place nearest to its point, with a thin stroke where that is not beside it.

    `line` holds the corners of a rectilinear line to keep off. The figure must have its final
    layout: places are found in pixels.
    """
    scale = figure.dpi / 72
    inside = axes.get_window_extent()
    markers = [_around(axes, label, MARKER * scale) for label in labels]
    bars = [bar for label in labels for bar in _bars(axes, label, scale)]
    bars += [_segment(axes, start, end, scale) for start, end in pairwise(line)]
    taken: list[Bbox] = []

    def cost(place: Place) -> float:
        outside = place.box.width * place.box.height - _overlap(place.box, [inside])
        covered = _overlap(place.box, taken) + _overlap(place.box, markers)
        return place.distance + 10 * covered + 3 * _overlap(place.box, bars) + 5 * outside

    for label in labels:
        best = min(_places(figure, axes, label), key=cost)
        taken.append(best.box)
        stroke = {"arrowstyle": "-", "lw": 0.5, "color": "#8a8a8a", "shrinkB": 3}
        axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=best.offset,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=FONT,
            zorder=6,
            annotation_clip=False,
            arrowprops=stroke if best.distance > RINGS[0] else None,
        ).set_in_layout(False)


def _places(figure: Figure, axes: Axes, label: Label) -> list[Place]:
    """Rings of places around the point, nearest first."""
    scale = figure.dpi / 72
    trial = axes.text(0, 0, label.text, fontsize=FONT)
    extent = trial.get_window_extent()
    trial.remove()
    width, height = extent.width + 2, extent.height + 1
    x, y = axes.transData.transform((label.x, label.y))
    places = []
    for distance in RINGS:
        for turn in range(DIRECTIONS):
            angle = 2 * math.pi * turn / DIRECTIONS
            dx = math.cos(angle) * (distance * scale + width / 2)
            dy = math.sin(angle) * (distance * scale + height / 2)
            box = Bbox.from_bounds(x + dx - width / 2, y + dy - height / 2, width, height)
            places.append(Place(box, (dx / scale, dy / scale), distance))
    return places


def _around(axes: Axes, label: Label, half: float) -> Bbox:
    x, y = axes.transData.transform((label.x, label.y))
    return Bbox.from_extents(x - half, y - half, x + half, y + half)


def _bars(axes: Axes, label: Label, half: float) -> list[Bbox]:
    x, y = label.x, label.y
    return [
        _segment(axes, (label.x_range[0], y), (label.x_range[1], y), half),
        _segment(axes, (x, label.y_range[0]), (x, label.y_range[1]), half),
    ]


def _segment(axes: Axes, start: tuple[float, float], end: tuple[float, float], half: float) -> Bbox:
    (x0, y0), (x1, y1) = axes.transData.transform([start, end])
    return Bbox.from_extents(min(x0, x1) - half, min(y0, y1) - half, max(x0, x1) + half, max(y0, y1) + half)


def _overlap(box: Bbox, others: Sequence[Bbox]) -> float:
    """The area that a box shares with others, in square pixels."""
    return sum(
        max(0.0, float(min(box.x1, other.x1) - max(box.x0, other.x0)))
        * max(0.0, float(min(box.y1, other.y1) - max(box.y0, other.y0)))
        for other in others
    )
