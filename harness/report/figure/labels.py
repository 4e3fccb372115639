"""Labels of points, placed so that they do not cover each other, other points or error bars."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from harness.report.figure.paper_sizes import scaled

RINGS = (7.0, 15.0, 25.0, 37.0)
"""Distances from the point to try, in points (1/72 inch)."""
DIRECTIONS = 12
MARKER = 4.5
"""Half the side of a marker's square, in points."""
FONT = 8

Box = tuple[float, float, float, float]
"""Left, low, right and high end."""


@dataclass(frozen=True)
class Label:
    """A text for the data point (x, y), whose error bars reach over these ranges.

    Without a text it is a point for others to avoid.
    """

    x: float
    y: float
    text: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]


@dataclass(frozen=True)
class Place:
    """A candidate position of a text: its box in pixels, its offset in points, distance from the point."""

    box: Box
    offset: tuple[float, float]
    distance: float


def place_labels(
    figure: Figure, axes: Axes, labels: Sequence[Label], line: Sequence[tuple[float, float]] = ()
) -> None:
    """Write each text at the nearest free position, with a leader line if that is not next to its point.

    `line` holds the corners of a rectilinear line to avoid. The figure must have its final layout:
    positions are in pixels.
    """
    scale = figure.dpi / 72
    inside = _boxes([axes.get_window_extent().extents])
    markers = _boxes([_around(axes, label, MARKER * scale) for label in labels])
    bars = [bar for label in labels for bar in _bars(axes, label, scale)]
    bars += [_segment(axes, start, end, scale) for start, end in pairwise(line)]
    thin = _boxes(bars)
    taken = _boxes([])
    for label in [each for each in labels if each.text]:
        places = _places(figure, axes, label)
        boxes = _boxes([place.box for place in places])
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        covered = _overlaps(boxes, taken) + _overlaps(boxes, markers)
        outside = area - _overlaps(boxes, inside)
        away = np.array([place.distance for place in places])
        best = places[int(np.argmin(away + 10 * covered + 3 * _overlaps(boxes, thin) + 5 * outside))]
        taken = np.vstack([taken, best.box])
        _write(axes, label, best)


def _write(axes: Axes, label: Label, place: Place) -> None:
    axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=place.offset,
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=scaled(FONT),
        zorder=6,
        annotation_clip=False,
    ).set_in_layout(False)
    if place.distance > RINGS[0]:
        x, y = axes.transData.transform((label.x, label.y))
        left, low, right, high = place.box
        near = (min(max(x, left), right), min(max(y, low), high))
        # In fractions of the figure, which hold for every resolution.
        ends = axes.figure.transFigure.inverted().transform([(x, y), near])
        stroke = Line2D(ends[:, 0], ends[:, 1], transform=axes.figure.transFigure, lw=0.5, color="#8a8a8a")
        stroke.set_clip_on(False)
        stroke.set_in_layout(False)
        axes.add_artist(stroke)


def _places(figure: Figure, axes: Axes, label: Label) -> list[Place]:
    """Rings of positions around the point, nearest first."""
    scale = figure.dpi / 72
    trial = axes.text(0, 0, label.text, fontsize=scaled(FONT))
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
            box = (x + dx - width / 2, y + dy - height / 2, x + dx + width / 2, y + dy + height / 2)
            places.append(Place(box, (dx / scale, dy / scale), distance))
    return places


def _around(axes: Axes, label: Label, half: float) -> Box:
    x, y = axes.transData.transform((label.x, label.y))
    return x - half, y - half, x + half, y + half


def _bars(axes: Axes, label: Label, half: float) -> list[Box]:
    x, y = label.x, label.y
    return [
        _segment(axes, (label.x_range[0], y), (label.x_range[1], y), half),
        _segment(axes, (x, label.y_range[0]), (x, label.y_range[1]), half),
    ]


def _segment(axes: Axes, start: tuple[float, float], end: tuple[float, float], half: float) -> Box:
    (x0, y0), (x1, y1) = axes.transData.transform([start, end])
    return min(x0, x1) - half, min(y0, y1) - half, max(x0, x1) + half, max(y0, y1) + half


def _boxes(boxes: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    return np.array(boxes, dtype=np.float64).reshape(-1, 4)


def _overlaps(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """The area that each box shares with the others, in square pixels."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared: NDArray[np.float64] = np.maximum(high - low, 0.0).prod(axis=2).sum(axis=1)
    return shared
