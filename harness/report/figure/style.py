"""The style of figures: ink, short texts, and reproducible files."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, NullFormatter

from harness.report.figure.paper_sizes import SCREEN, Sheet, scaled, wrap
from harness.report.metadata import Imprint
from harness.report.reading import Reading

KINDS = {
    "approximate-dp": ("approximate DP", "o"),
    "pure-dp": ("pure DP", "s"),
    "metric-dp": ("metric DP", "D"),
    "claimed-disputed": ("claimed, disputed", "v"),
    "empirical": ("empirical", "P"),
    "none": ("no guarantee", "^"),
}
"""Kinds of guarantee: the displayed name, and the marker in figures of guarantees."""
UNKNOWN_KIND = ("other guarantee", "h")

LINES = ("-", "--", "-.", ":")
FORMS = {"png": FigureCanvasAgg, "svg": FigureCanvasSVG, "pdf": FigureCanvasPdf}
"""Every figure is written in all of them."""
INK, FAINT, ALARM = "#1a1a1a", "#8a8a8a", "#b00020"


def shorten(text: object, length: int = 28) -> str:
    """A name shortened to one printable line."""
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return line if len(line) <= length else line[: length - 1] + "…"


def format_asked(epsilon: float) -> str:
    """An epsilon as it was asked for."""
    return "ε=∞" if math.isinf(epsilon) else f"ε={epsilon:g}"


def format_epsilon(epsilon: float) -> str:
    """Two significant digits of a computed epsilon; infinity as a symbol."""
    return "ε=∞" if math.isinf(epsilon) else f"ε={epsilon:.2g}"


@contextmanager
def house_style(sheet: Sheet = SCREEN) -> Iterator[None]:
    """Settings that apply only while a figure is drawn and saved."""
    settings: dict[Any, Any] = {
        "svg.hashsalt": "privbench",  # stable ids
        "svg.fonttype": "path",  # letters as shapes: the same picture wherever it is opened
        "pdf.fonttype": 42,  # fonts embedded as TrueType; publishers refuse matplotlib's own Type 3
        "text.parse_math": False,  # names may have dollar signs
        "font.size": sheet.font,
        "axes.titlesize": sheet.font,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": FAINT,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e6e6e6",
        "grid.linewidth": 0.6,
        "text.color": INK,
        "axes.labelcolor": INK,
        "legend.frameon": False,
        "savefig.dpi": 300 if sheet.printed else 160,
    }
    with matplotlib.rc_context(settings):
        yield


def log_ticks(axis: Axis) -> None:
    """Plain decimals at the powers of ten of a log axis."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def percent_ticks(*axes: Axis) -> None:
    """Fractions as per cent, as in tables and on the page."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g} %"))
        axis.set_minor_formatter(NullFormatter())


def new_figure(width: float, height: float) -> Figure:
    """An empty figure outside pyplot's global state; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def lay_out_once(figure: Figure) -> None:
    """Compute the layout once and freeze it."""
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        if figure.axes:
            engine.execute(figure)
        figure.set_layout_engine("none")


def save(figure: Figure, out: Path, stem: str, imprint: Imprint) -> list[Path]:
    """Write `stem`.png, .svg and .pdf, each with the imprint in its metadata."""
    out.mkdir(parents=True, exist_ok=True)
    lay_out_once(figure)  # the same layout in every format
    files = []
    for form, canvas in FORMS.items():
        files.append(out / f"{stem}.{form}")
        figure.set_dpi(float(matplotlib.rcParams["savefig.dpi"]))
        # Not by `savefig`, which draws everything twice for the layout.
        getattr(canvas(figure), f"print_{form}")(files[-1], metadata=imprint.metadata(form))
    return files


def empty_figure(title: str, text: str, sheet: Sheet = SCREEN) -> Figure:
    """A figure that states what is missing and what to run."""
    width = sheet.inches(8)
    figure = new_figure(width, 2.4)
    figure.text(0.5, 0.75, wrap(title, 0.9 * width, 13), ha="center", fontsize=scaled(13), weight="bold")
    wrapped = wrap(text, 0.9 * width, 10)
    figure.text(0.5, 0.34, wrapped, ha="center", va="center", fontsize=scaled(10))
    return figure


def explain_empty(reading: Reading) -> str:
    """Why there is nothing to draw, and what to run."""
    if reading.condition:
        return f"No row of {reading.view} matches the condition\n{shorten(reading.condition, 90)}"
    if reading.failures:
        tasks = len(reading.failures)
        return f"No result yet; {tasks} failed task{'s' * (tasks > 1)}.\nLook with: privbench status"
    return "The database holds no result yet.\nRun: privbench quickstart   or   privbench run SWEEP.toml"


def darken(colour: str, share: float) -> str:
    """A colour darkened to this share of its brightness."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel * share):02X}" for channel in channels)
