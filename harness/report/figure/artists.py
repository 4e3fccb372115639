"""Points and bars of many rows as a few artists: matplotlib's time is per artist, not per point."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection


class Marks:
    """Points, grouped by style. They are drawn style by style, in the order of the first of each."""

    def __init__(self) -> None:
        self._found: dict[tuple[tuple[str, Any], ...], list[tuple[float, float]]] = {}

    def add(self, x: float, y: float, **look: Any) -> None:
        """A point; `look` is what matplotlib's `plot` takes."""
        self._found.setdefault(tuple(look.items()), []).append((x, y))

    def draw(self, axes: Axes) -> None:
        """Draw them in a panel, without lines between them."""
        for look, points in self._found.items():
            axes.plot([x for x, _ in points], [y for _, y in points], **{"ls": "", **dict(look)})


class Bars:
    """Straight lines of one width, each in its colour."""

    def __init__(self) -> None:
        self._strokes: list[tuple[tuple[float, float], tuple[float, float]]] = []
        self._colours: list[str] = []

    def add(self, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        """A line from one data point to another."""
        self._strokes.append((start, end))
        self._colours.append(colour)

    def draw(self, axes: Axes, **look: Any) -> None:
        """Draw them in a panel and update its limits; `look` is what a LineCollection takes."""
        axes.add_collection(LineCollection(self._strokes, colors=self._colours, **look))
        axes.autoscale_view()
