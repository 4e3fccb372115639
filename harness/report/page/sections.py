"""Data of the later sections of the page: calibration, attributes, theory, pictures, published numbers."""

import base64
import io
import math
from collections import Counter
from typing import Any

from PIL import Image

from harness.report.attributes import beside_imputation, describe_gap, find_leak
from harness.report.calibration import (
    NEARNESS,
    NOTES,
    Calibration,
    Curve,
    calibrate,
    calibrate_pictures,
    calibration_tables,
)
from harness.report.leakage import name_attacks
from harness.report.published.reproduce import FIGURES, STATUSES, WORDS, remarks_of
from harness.report.reading import Reading, Row, name_groups
from harness.report.reconstructions import SHOWN, Bytes, Gallery, group, lines_of, name_block, strip
from harness.report.theory_report import drawings
from workloads.drawings import Line

PICTURE_BYTES = 800_000
"""Size of all pictures in a page, at most."""


def calibration_data(reading: Reading) -> list[dict[str, Any]]:
    """Every method's front as a polyline with its band, and the report's table."""
    found = [
        *calibrate(reading.frontier, reading.attack, reading.fpr),
        *calibrate_pictures(reading.reconstructions),
    ]
    return [
        {
            "group": each.group.removesuffix(", pictures"),
            "leakage": each.leakage.name,
            "chance": None if each.leakage is NEARNESS else each.leakage.chance,
            "attack": each.attack,
            "steps": not each.leakage.mixes,
            "curves": [_corners(curve, _reach(each)) for curve in each.curves],
            "columns": list(text.columns),
            "rows": [list(line) for line in text.rows],
            "notes": list(NOTES),
        }
        for each, text in zip(found, calibration_tables(found, reading.query), strict=True)
    ]


def _reach(found: Calibration) -> float:
    """The highest leakage of any front, to which every curve extends."""
    return max((row[found.leakage.column] for curve in found.curves for row in curve.rows), default=0.0)


def _corners(curve: Curve, reach: float) -> dict[str, Any]:
    """The corners of a curve, extended to `reach`: between them it is straight, or a step."""
    levels = list(dict.fromkeys(row[curve.leakage.column] for row in curve.rows))  # equal cells, one corner
    offers = [offer for level in [*levels, reach] if (offer := curve.at(level)) is not None]
    banded = all(offer.low is not None for offer in offers)
    return {
        "method": curve.method,
        "x": [*levels, reach],
        "y": [offer.accuracy for offer in offers],
        "low": [offer.low for offer in offers] if banded else None,
        "high": [offer.high for offer in offers] if banded else None,
    }


def attribute_data(reading: Reading) -> list[dict[str, Any]]:
    """The page's texts for attribute inferences, in the order of the view's rows."""
    names = name_attacks(reading.attributes)
    return [
        {
            "attack_name": attack,
            "members": beside_imputation(row, "members"),
            "nonmembers": beside_imputation(row, "nonmembers"),
            "gap_text": describe_gap(row),
            "finding": find_leak(row),
        }
        for row, attack in zip(reading.attributes, names, strict=True)
    ]


def theory_data(reading: Reading) -> list[dict[str, Any]]:
    """The theory panels of the database's methods, without empty ones."""
    names = sorted({row["method"] for row in reading.illustrated})
    return [
        {
            "title": f"{name}: {panel.title}",
            "x": panel.x,
            "y": panel.y,
            "log": panel.log_y,
            "range": panel.y_limits if panel.log_y and None not in (panel.y_limits or (None,)) else None,
            "curves": [_line(line) for line in panel.lines],
        }
        for name, drawing in (drawings(names, reading.illustrated) if names else {}).items()
        for panel in drawing.panels
        if panel.lines
    ]


def _line(line: Line) -> dict[str, Any]:
    """Every other point, four digits; none where a bound does not hold."""
    step = 1 if len(line.x) < 50 else 2
    points = [point for point in list(zip(line.x, line.y, strict=True))[::step] if math.isfinite(point[1])]
    x, y = [round(x, 4) for x, _ in points], [float(f"{y:.4g}") for _, y in points]
    return {"name": line.label, "x": x, "y": y}


def picture_data(reading: Reading) -> dict[str, Any]:
    """Blocks of picture strips, as data URLs; `left_out` counts the attacks that do not fit."""
    rows = [dict(row) for row in reading.reconstructions]
    name_groups(rows)
    shown = [row for row in rows if row["attack_task"] in reading.pictures]
    galleries = [_gallery(row, reading) for row in shown]
    blocks, spent, kept = [], 0, 0
    for block in group(galleries):
        lines = []
        for text, pictures in lines_of(block, SHOWN):
            url = data_url(strip(pictures, len(pictures)))
            if spent + len(url) > PICTURE_BYTES:
                break
            spent += len(url)
            lines.append({"text": text, "image": url})
        kept += max(0, len(lines) - 2)
        if len(lines) > 2:
            blocks.append({"title": name_block(block, rows), "lines": lines})
    return {"blocks": blocks, "left_out": len(rows) - kept}


def _gallery(row: Row, reading: Reading) -> Gallery:
    found = reading.pictures[row["attack_task"]]
    return Gallery(row, found.originals, found.rebuilt)


def data_url(pixels: Bytes) -> str:
    """A picture as a data URL."""
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(sink.getvalue()).decode("ascii")


def reproduction_data(reading: Reading) -> dict[str, Any]:
    """The page's texts for published numbers; their remarks, in the order of the view's rows."""
    count = Counter(row["status"] for row in reading.reproduction)
    return {
        "statuses": [{"status": each, "name": WORDS[each], "count": count[each]} for each in STATUSES],
        "figures": FIGURES,
        "remarks": ["; ".join(remarks_of(row)) for row in reading.reproduction],
    }
