"""The interactive page: one HTML file that holds its data, its code and plotly, without a network."""

import base64
import gzip
import json
import math
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.report.costs import choose_costs
from harness.report.data import Reading, Roc, Row, group_failures, program_version, read
from harness.report.leakage import AUC, TPRS, choose_attack, choose_leakage, name_attack
from harness.report.overhead import explain_clocks, name_line, relative_quartiles, say_missing
from harness.report.style import KINDS, UNKNOWN_KIND, assign_colours, explain_empty

AUDIT_COLUMNS = (
    "workload", "label", "attack", "canary", "canaries", "models", "correct", "guesses", "epsilon_audited",
    "confidence", "epsilon_priced", "epsilon_paper", "guarantee_kind", "meaning", "alarm", "message",
)  # fmt: skip
"""Of the view `audit`."""

SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_page(store: Path, out: Path, where: str | None = None) -> list[Path]:
    """Write index.html into `out`; `where` is an SQL condition on the view `frontier`."""
    return draw_page(read(store, where), out)


def draw_page(reading: Reading, out: Path) -> list[Path]:
    """The same from rows that were read already."""
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    page.write_text(render_page(reading), encoding="utf-8")
    return [page]


def render_page(reading: Reading) -> str:
    """The page as text. All names travel as data; none becomes markup."""
    parts = {
        "style": _part("page.css"),
        "charts": _part("charts.js"),
        "script": _part("page.js"),
        "data": encode_data(page_data(reading)),
        "plotly": _pack_plotly(),
    }
    # One pass: what is filled in is not searched for slots again, so data that look like one stay data.
    return SLOT.sub(lambda slot: parts[slot[1]], _part("page.html"))


def page_data(reading: Reading) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    costs = choose_costs(reading)
    seen = [*reading.methods, *(row["method"] for row in [*reading.frontier, *costs])]
    groups = {name: [row for row in reading.frontier if row["group"] == name] for name in reading.groups}
    kinds = sorted({str(row["guarantee_kind"]) for row in [*reading.frontier, *costs]})
    shapes = {kind: KINDS.get(kind, UNKNOWN_KIND) for kind in kinds}
    return {
        "version": program_version(),
        "where": reading.where,
        "empty": explain_empty(reading),
        "clocks": explain_clocks(reading),
        "colours": assign_colours(seen),
        "kinds": {kind: {"name": name, "symbol": symbol} for kind, (name, _, symbol) in shapes.items()},
        "leakages": [
            {"column": each.column, "name": each.name, "chance": each.chance, "needs": each.needs}
            for each in (*reversed(TPRS), AUC)
        ],
        "defaults": {name: _defaults(rows) for name, rows in groups.items()},
        "frontier": [
            {**row, "attack_name": name_attack(row, rows)} for rows in groups.values() for row in rows
        ],
        "rocs": {task: _thin(roc) for task, roc in reading.rocs.items()},
        "overhead": [
            {
                **row,
                "quartiles": relative_quartiles(row),
                "line_name": name_line(row, costs),
                "missing": say_missing(row),
            }
            for row in costs
        ],
        "audits": [{name: row[name] for name in AUDIT_COLUMNS} for row in reading.audits],
        "failures": group_failures(reading.failures),
    }


def encode_data(data: Any) -> str:
    """JSON that is safe inside a script element; an infinite number becomes the text "inf" or "-inf"."""
    text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _defaults(rows: list[Row]) -> dict[str, Any]:
    """The axis to begin with, and the strongest attack by each axis."""
    strongest = {each.column: choose_attack(rows, each) for each in (*TPRS, AUC)}
    return {"leakage": choose_leakage(rows).column, "strongest": strongest}


def _thin(roc: Roc) -> dict[str, list[float]]:
    """Six significant digits: what a screen can show, in half the bytes."""
    return {
        "fpr": [float(f"{value:.6g}") for value in roc.fpr],
        "tpr": [float(f"{value:.6g}") for value in roc.tpr],
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _part(name: str) -> str:
    return (files("harness.report") / name).read_text(encoding="utf-8")


@cache
def _pack_plotly() -> str:
    """Plotly's code, compressed: 2 MB in the page instead of 5, and the same bytes every time."""
    code = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 9, mtime=0)).decode("ascii")
