"""Points and bars of many rows as a few artists: matplotlib's time is per artist, not per point."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

DASHED = "dashed"


class Marks:
    """Points, grouped by style. They are drawn style by style, in the order of the first of each."""

    def __init__(self) -> None:
        self._found: dict[tuple[tuple[str, Any], ...], list[tuple[float, float]]] = {}

    def add(self, x: float, y: float, **look: Any) -> None:
        """A point; `look` is what matplotlib's `plot` takes, and DASHED for an edge of dashes."""
        self._found.setdefault(tuple(look.items()), []).append((x, y))

    def draw(self, axes: Axes) -> None:
        """Draw them in a panel, without lines between them."""
        for look, points in self._found.items():
            xs, ys = [x for x, _ in points], [y for _, y in points]
            if dict(look).get(DASHED):
                axes.scatter(xs, ys, **dashed(dict(look)))
            else:
                axes.plot(xs, ys, **{"ls": "", **dict(look)})


def dashed(look: Mapping[str, Any]) -> dict[str, Any]:
    """The same look for `scatter`, with an edge of dashes, which `plot` cannot draw around a marker."""
    return {
        "marker": look["marker"],
        "s": look["ms"] ** 2,
        "facecolors": "white",
        "edgecolors": look["mec"],
        "linewidths": look["mew"],
        "linestyles": [(0, (2, 1.2))],
        "zorder": look.get("zorder", 1),
    }


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
