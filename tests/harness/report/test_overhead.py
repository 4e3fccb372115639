from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from harness.report.figure.paper_sizes import SCREEN, SHEETS
from harness.report.figure.style import house_style
from harness.report.overhead import (
    draw_overhead,
    explain_clocks,
    name_lines,
    overhead_figure,
    overhead_table,
    relative_quartiles,
    thin_lines,
)
from harness.report.reading import Reading


def drawn(reading: Reading) -> Figure:
    with house_style():
        return overhead_figure(reading)


def texts(figure: Figure) -> str:
    found: list[Any] = figure.findobj(match=Text)
    return "\n".join(text.get_text() for text in found)


def test_one_line_for_each_cell_with_its_ratio(quickstart: Reading) -> None:
    figure = drawn(quickstart)
    assert len(figure.axes) == 6
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels == [row["label"] for row in quickstart.overhead if row["workload"] == "digits-linear"]
    text = texts(figure)
    assert {"4.2", "2.1"} <= set(text.splitlines()), "per example, and the whole training"
    assert "1 thread each" in text
    assert "8 models a cell" in text


def test_quartiles_are_in_units_of_the_baselines_step() -> None:
    row: dict[str, Any] = {"example_overhead": 4.0, "step_seconds": 0.02}
    row |= {"step_seconds_p25": 0.01, "step_seconds_p75": 0.03}
    assert relative_quartiles(row) == pytest.approx((2.0, 6.0))
    assert relative_quartiles(row | {"example_overhead": None}) is None
    assert relative_quartiles(row | {"step_seconds_p25": None}) is None
    assert relative_quartiles(row | {"step_seconds": 0.0}) is None


def test_no_baseline_is_stated_and_large_ratios_are_logarithmic(row: Any, reading: Any) -> None:
    none = {"example_overhead": None, "overhead_by": None, "training_overhead": None, "memory_overhead": None}
    alone = [row("digits-mlp", **none)]
    figure = drawn(reading([*alone, row("digits-linear", example_overhead=80.0, models=1)]))
    assert texts(figure).count("no baseline") == 2, "a step and the training; memory is left out"
    assert [axes.get_xscale() for axes in figure.axes] == ["log", *["linear"] * 4]
    dots = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert [dot.get_markerfacecolor() for dot in dots] == ["white"]


def test_machines_are_named_where_there_are_two_kinds() -> None:
    here = {"label": "sgd", "method": "sgd", "device": "cpu", "threads": 1}
    there = {**here, "threads": 8}
    assert name_lines([here]) == ["sgd"]
    assert name_lines([here, there])[1] == "sgd (cpu, 8 thr.)"


def test_of_many_cells_some_of_every_method_are_drawn_and_the_figure_notes_it(
    row: Any, reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.report.overhead.LINES", 20)
    rows = [row(method="sgd", epsilon=None), *(row(epsilon=float(e)) for e in range(1, 60))]
    kept = [(each["method"], each["epsilon_asked"]) for each in thin_lines(rows)]
    assert kept[:2] == [("sgd", None), ("dp-sgd", 1.0)]
    assert kept[-1] == ("dp-sgd", 59.0)
    assert len(kept) == 11
    found = reading(rows)
    assert "11 of 60 cells drawn, the table has all" in texts(drawn(found)).replace("\n", " ")
    assert len(overhead_table(found).rows) == 60


def test_what_the_clocks_are(quickstart: Reading, reading: Any) -> None:
    assert "not interleaved with the baseline" in explain_clocks(quickstart).lower()
    line: dict[str, Any] = {
        "group": "g",
        "workload": "g",
        "method": "m",
        "overhead_by": None,
        "example_overhead": None,
        "extra_memory_bytes": None,
        "memory_overhead": None,
    }
    mixed = [line | {"threads": number} for number in (8, None, 1, 8)]
    assert "1 or 8 threads each" in explain_clocks(reading([], overhead=mixed))
    assert "thread" not in explain_clocks(reading([], overhead=[]))


@pytest.mark.slow
def test_equal_data_give_equal_files(
    row: Any, reading: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    rows = [row(), row(method="sgd", epsilon=None)]
    files = [draw_overhead(reading(rows), tmp_path / name) for name in ("one", "two")]
    for one, two in zip(*files, strict=True):
        assert one.read_bytes() == two.read_bytes()
        assert one.stat().st_size > (10_000 if one.suffix in (".png", ".svg", ".pdf") else 0)


def test_the_table_has_a_line_for_each_line_of_the_figure(quickstart: Reading) -> None:
    table = overhead_table(quickstart)
    assert [line[2] for line in table.rows] == [row["label"] for row in quickstart.overhead]
    first, second = table.rows[0], table.rows[1]
    assert first[5:] == ("1", "an example", "0.9 to 1.25", "0.97", "1", "1", "32")
    assert second[5:] == ("4.2", "an example", "3.78 to 5.25", "4.07", "2.1", "3", "96")
    assert table.query == "select * from frontier"


@pytest.mark.parametrize(("columns", "width", "panels"), [("1", 3.0, (1, 1)), ("2", 7.0, (2, 2))])
def test_in_print_one_column_has_one_panel_and_two_have_all(
    quickstart: Reading, columns: Any, width: float, panels: tuple[int, int]
) -> None:
    with house_style(SHEETS[columns]):
        figure = overhead_figure(quickstart, SHEETS[columns])
    assert figure.get_size_inches()[0] == width
    grid: Any = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == panels


def test_a_step_that_a_bench_timed_is_shown_as_that(row: Any, reading: Any) -> None:
    """At equal batch size, with its interval; the whole training stands beside it."""
    found = reading([row(method="sgd", epsilon=None), row(step_overhead=1.4, overhead_by="bench")])
    found.overhead[1].update(step_overhead_low=1.3, step_overhead_high=1.5)
    table = overhead_table(found)
    assert table.rows[1][3] == "bench"
    assert table.rows[1][5:10] == ("1.4", "a step, equal batch", "1.3 to 1.5", "4.07", "2.1")
    figure = drawn(found)
    time, training = ([line.get_marker() for line in axes.get_lines()] for axes in figure.axes[:2])
    assert "s" in time
    assert "s" not in training, "the training was timed by its own clocks"
    assert "same batch size" in explain_clocks(found)


@pytest.mark.parametrize(
    ("changes", "explained"),
    [
        ({"example_overhead": 0.7}, True),
        ({"step_overhead": 0.8, "overhead_by": "bench"}, True),
        ({"example_overhead": 1.3}, False),
        ({"example_overhead": None}, False),
    ],
)
def test_a_ratio_below_one_is_explained_in_figure_and_table(
    changes: dict[str, Any], explained: bool, row: Any, reading: Any
) -> None:
    found = reading([row(method="sgd", epsilon=None, example_overhead=0.9), row(**changes)])
    assert ("autograd" in explain_clocks(found)) is explained
    assert any("autograd" in note for note in overhead_table(found).protocol) is explained


MIB = 2**20


@pytest.mark.parametrize(
    ("extra", "ratio", "device", "shown"),
    [
        (96 * MIB, 3.0, "cpu", True),
        (96 * MIB, 9.0, "cpu", False),
        (8 * MIB, 0.25, "cpu", False),
        (0, 0.0, "cpu", False),
        (4 * MIB, None, "cpu", False),
        (4 * MIB, 2.0, "cuda:0", True),
    ],
)
def test_memory_is_left_out_where_it_is_noise(
    extra: int, ratio: float | None, device: str, shown: bool, row: Any, reading: Any
) -> None:
    """Both the cell's and the baseline's must be resolved; a GPU's allocator counts every byte."""
    found = reading(
        [row(method="sgd", epsilon=None), row(extra_memory_bytes=extra, memory_overhead=ratio)],
    )
    found.overhead[1]["device"] = device
    figure = drawn(found)
    assert ("extra peak memory, baseline = 1" in [axes.get_xlabel() for axes in figure.axes]) is shown
    assert "no baseline" not in texts(figure)
    line = dict(zip(overhead_table(found).columns, overhead_table(found).rows[1], strict=True))
    assert (line["extra memory (baseline = 1)"] != "-") is shown


def test_a_chosen_panel_of_memory_states_that_it_is_noise(row: Any, reading: Any) -> None:
    rows = [row(method="sgd", epsilon=None, extra_memory_bytes=0, memory_overhead=None)]
    rows.append(row(extra_memory_bytes=MIB, memory_overhead=None))
    sheet = replace(SCREEN, panels=("memory",))
    with house_style(sheet):
        figure = overhead_figure(reading(rows), sheet)
    assert texts(figure).count("noise, below 16 MiB") == 2


def test_a_baseline_on_another_machine_is_no_missing_one(row: Any, reading: Any) -> None:
    none = {"example_overhead": None, "overhead_by": None, "training_overhead": None}
    found = reading([row(method="sgd", epsilon=None), row(**none)])
    assert texts(drawn(found)).count("the baseline ran on another machine") == 2


def test_the_axis_names_the_signs_that_occur(row: Any, reading: Any) -> None:
    plain = row(method="sgd", epsilon=None)
    assert drawn(reading([plain, row()])).axes[0].get_xlabel() == "time per example, baseline = 1"
    both = drawn(reading([plain, row(step_overhead=1.4, overhead_by="bench")])).axes[0].get_xlabel()
    assert "■" in both and "●" in both
