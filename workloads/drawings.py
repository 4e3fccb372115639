"""A method's own figures as plain data: methods make them, reports draw them, and neither loads the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Limits = tuple[float | None, float | None]
Style = Literal["-", "--", ":", "o-", "s:"]
"""Of a line, with its marker before it."""


@dataclass(frozen=True)
class Trained:
    """What one training of the method left."""

    workload: str
    params: Mapping[str, Any]
    stats: Mapping[str, float]


@dataclass(frozen=True)
class Printed:
    """A line of a published table that is about the method."""

    table: str
    label: str
    """The method as the paper calls it."""
    workload: str | None
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A curve; where its y is NaN nothing is drawn."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    label: str
    """In the legend."""
    level: float | None = None
    """Of the parameter that tells curves of one name apart (`Drawing.level`)."""
    colour: int | None = 0
    """Place in the palette; None for the colour of text."""
    style: Style = "-"


@dataclass(frozen=True)
class Dot:
    """A point that stands out, with what is written beside it."""

    x: float
    y: float
    colour: int = 0
    size: float = 5
    text: str = ""


@dataclass(frozen=True)
class DrawnPanel:
    """One pair of axes."""

    name: str
    """In the data file."""
    title: str
    x: str
    y: str = ""
    lines: tuple[Line, ...] = ()
    dots: tuple[Dot, ...] = ()
    log_x: bool = False
    log_y: bool = False
    x_limits: Limits | None = None
    y_limits: Limits | None = None
    y_ticks: tuple[float, ...] = ()
    rows: tuple[str, ...] = ()
    """Names of the places 0, 1, ... of the upward axis, which then goes down."""
    shaded: tuple[float, float] | None = None
    """Of the axis across."""
    legend_size: float | None = None
    legend_place: Literal["best", "upper left"] = "best"
    without_lines: str = ""
    """Written where there is no line."""


@dataclass(frozen=True)
class DrawnTable:
    """Numbers that one looks up, as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Drawing:
    """A figure of several panels, and the tables beside it."""

    title: str
    about: str
    """What of the paper is drawn."""
    panels: tuple[DrawnPanel, ...]
    tables: tuple[DrawnTable, ...] = ()
    level: str = "level"
    """The parameter that tells curves of one name apart."""
