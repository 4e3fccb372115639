"""A method's own figures as plain data: methods make them, reports draw them, neither imports the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Limits = tuple[float | None, float | None]
Style = Literal["-", "--", ":", "o-", "s:"]
"""A line style, after its marker."""


@dataclass(frozen=True)
class Trained:
    """The outcome of one training run of the method."""

    workload: str
    params: Mapping[str, Any]
    stats: Mapping[str, float]


@dataclass(frozen=True)
class Printed:
    """A row of a published table for the method."""

    table: str
    label: str
    """The paper's name of the method."""
    workload: str | None
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A curve, not drawn at points with a NaN y."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    label: str
    """In the legend."""
    level: float | None = None
    """Value of the parameter that distinguishes curves of one name (`Drawing.level`)."""
    colour: int | None = 0
    """Index into the palette; None for the text colour."""
    style: Style = "-"


@dataclass(frozen=True)
class Dot:
    """A highlighted point and its label."""

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
    """Names of the values 0, 1, ... of the vertical axis, which then points down."""
    shaded: tuple[float, float] | None = None
    """A range of the horizontal axis."""
    legend_size: float | None = None
    legend_place: Literal["best", "upper left"] = "best"
    without_lines: str = ""
    """Text of a panel without lines."""


@dataclass(frozen=True)
class DrawnTable:
    """A table of numbers, as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Drawing:
    """A figure of several panels, and the tables beside it."""

    title: str
    about: str
    """The part of the paper that is drawn."""
    panels: tuple[DrawnPanel, ...]
    tables: tuple[DrawnTable, ...] = ()
    level: str = "level"
    """The parameter that distinguishes curves of one name."""
