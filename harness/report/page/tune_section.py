"""Data of the page's section on tunes: a block of panels per method and level, and the table of all."""

from collections.abc import Mapping
from typing import Any

from harness.report.tuning.trial_figure import describe_search
from harness.report.tuning.trial_points import Block, blocks_of, limits_of, points_of, reference_of
from harness.report.tuning.tune_report import COLUMNS, NOTES, search_line
from harness.store.tunes import AxisRecord, SearchRecord, TuneRecord, show_values


def tune_data(tunes: Mapping[str, TuneRecord]) -> dict[str, Any]:
    """Every search as points on its axes; the report's table and notes."""
    searches = [(block, each) for block in blocks_of(tunes) for each in block.searches]
    return {
        "blocks": [_block(block, each) for block, each in searches],
        "columns": list(COLUMNS),
        "rows": [list(search_line(block, each)) for block, each in searches],
        "notes": list(NOTES),
    }


def _block(block: Block, search: SearchRecord) -> dict[str, Any]:
    points = list(points_of(block.record, search))
    return {
        "title": f"{block.workload}: {describe_search(search)}",
        "tune": block.key,
        "warnings": [each.text for each in search.warnings],
        "studies": [each.number for each in search.studies],
        "axes": [_axis(each) for each in search.axes_in_order],
        "range": limits_of(points, search),
        "majority": search.majority,
        "reference": reference_of(search),
        "points": [
            {
                "study": point.study,
                "number": point.number,
                "score": point.score,
                "standing": point.standing,
                "failed": point.failed,
                "models": len(point.trial.scores),
                "places": [float(f"{point.places[each.name]:.4g}") for each in search.axes_in_order],
                "values": show_values(point.trial.params),
            }
            for point in points
        ],
    }


def _axis(axis: AxisRecord) -> dict[str, Any]:
    return {
        "name": axis.label,
        "log": axis.scale == "log" and not axis.choices,
        "low": axis.low,
        "high": axis.high,
        "choices": [str(each) for each in axis.choices],
    }
