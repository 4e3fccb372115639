"""The interactive page: one HTML file with its data, its code and plotly, for use offline.

Served live (`privbench serve`), the same page polls its own server, and no other, for newer data.
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
"""In the order of the page."""

PLOTLY = "vendor/plotly-basic-4.1.1.min.js"
"""Not compressed: a browser parses it faster than it would unpack it."""

SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_page(store: Source, out: Path, where: str | None = None, sweep: str | None = None) -> list[Path]:
    """Write index.html into `out`; `where` is an SQL condition on the view `frontier`."""
    return draw_page(read(store, where, sweep=sweep, whole=True), out)


def draw_page(reading: Reading, out: Path) -> list[Path]:
    """The same from rows already read."""
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    page.write_text(render_page(reading), encoding="utf-8")
    return [page]


def render_page(reading: Reading, live: bool = False) -> str:
    """The page as text. All names are data; none becomes markup.

    A live page fetches `data.json` (from `encode_data(page_data(...))`) and `progress.json`, with the query
    string of its own request.
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
    # One pass: inserted data are not searched for slots.
    return SLOT.sub(lambda slot: parts[slot[1]], _part("page.html"))


def encode_data(data: Any) -> str:
    """JSON; infinities become the text "inf" or "-inf", NaN becomes null."""
    return json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)


def pack(content: bytes) -> str:
    """Compressed and encoded as text that is safe inside an element; deterministic."""
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
