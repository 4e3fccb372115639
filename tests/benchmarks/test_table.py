"""The table of benchmarks, its record and the page: which bounds are missed, and that all say so."""

from pathlib import Path

import pytest

from tests.benchmarks.page import page
from tests.benchmarks.pairs import Estimate
from tests.benchmarks.table import Table, as_text, machine, write_record


def filled() -> Table:
    table = Table()
    table.hold("dp / sgd", "small", Estimate(1.2, 1.05, 1.3), 1.1, 50, "sgd 3 ms")
    with pytest.raises(AssertionError):
        table.hold("dp / sgd", "large", Estimate(1.2, 1.15, 1.3), 1.1, 50)
    table.hold("commands, CPU seconds", "`list`", Estimate(0.4, 0.3, 0.5), 0.7, 5)
    return table


def test_a_row_is_kept_and_missed_only_if_the_lower_end_is_above_its_bound() -> None:
    rows = filled().rows
    assert [row.held for row in rows] == [True, False, True]


def test_the_printed_table_has_every_row_under_its_group() -> None:
    lines = as_text(filled().rows)
    heads = [line.split("  ")[0] for line in lines if "must" in line]
    assert heads == ["dp / sgd", "commands, CPU seconds"]
    assert [("MISSED" in line, "held" in line) for line in lines if line.startswith("large")] == [
        (True, False)
    ]
    assert any(line.startswith("small") and line.endswith("sgd 3 ms") for line in lines)


def test_the_page_has_the_rows_and_the_machine_without_its_name(tmp_path: Path) -> None:
    record = tmp_path / "build" / "run.json"
    write_record(filled().rows, 2.5, record)
    text = page(record)
    assert "| large | 1.1 | 1.2 | 1.15 to 1.3 | 50 | MISSED |" in text
    assert "| small | 1.1 | 1.2 | 1.05 to 1.3 | 50 | held; sgd 3 ms |" in text
    about = machine()
    assert set(about) == {"processor", "cores", "python", "torch", "load", "date"}
    assert f"torch {about['torch']}" in text and about["processor"] in text and "load 2.5" in text
    assert "3 figures, 1 above its bound" in text
