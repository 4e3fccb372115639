"""The interactive page: one HTML file that holds its data, its code and plotly, without a network.

Served live (`privbench serve`), the same page asks its own server, and nobody else, for newer data.
"""

import base64
import gzip
import json
import math
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.report.figure.style import explain_empty
from harness.report.page.content import page_data
from harness.report.reading import Reading, read
from harness.results.query import Source

__all__ = ["draw_page", "encode_data", "page_data", "render_page", "write_page"]

SCRIPTS = (
    "page_basics.js",
    "page_texts.js",
    "page_tables.js",
    "charts.js",
    "charts_sections.js",
    "page_explorer.js",
    "page_point.js",
    "page_sections.js",
    "page_live.js",
    "page.js",
)
"""In the order in which they stand in the page."""

PLOTLY = "vendor/plotly-basic-4.1.1.min.js"
"""As it is: a browser reads it sooner than it would unpack it."""

SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_page(store: Source, out: Path, where: str | None = None) -> list[Path]:
    """Write index.html into `out`; `where` is an SQL condition on the view `frontier`."""
    return draw_page(read(store, where), out)


def draw_page(reading: Reading, out: Path) -> list[Path]:
    """The same from rows that were read already."""
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    page.write_text(render_page(reading), encoding="utf-8")
    return [page]


def render_page(reading: Reading, live: bool = False) -> str:
    """The page as text. All names travel as data; none becomes markup.

    A live page asks for `data.json` (what `encode_data(page_data(...))` gives) and `progress.json`
    beside it, with the query string it was itself asked for with.
    """
    parts = {
        "style": _part("page.css"),
        "script": "\n".join(_part(name) for name in SCRIPTS),
        "data": pack(encode_data(page_data(reading)).encode()),
        "plotly": _part(PLOTLY),
        "connect": "connect-src 'self'; " if live else "",
        "live": " data-live" if live else "",
        "empty": "" if reading.frontier or reading.overhead else escape(f" {explain_empty(reading)}"),
    }
    # One pass: what is filled in is not searched for slots again, so data that look like one stay data.
    return SLOT.sub(lambda slot: parts[slot[1]], _part("page.html"))


def encode_data(data: Any) -> str:
    """JSON; an infinite number becomes the text "inf" or "-inf", one that is none becomes null."""
    return json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)


def pack(content: bytes) -> str:
    """Compressed and in letters that are safe inside an element; equal contents give equal text."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _part(name: str) -> str:
    return (files("harness.report.page") / name).read_text(encoding="utf-8")
