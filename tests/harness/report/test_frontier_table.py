"""The frontier in numbers, and with cost as a third axis."""

from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from harness.report.figure.panels import FRONT_NAMED
from harness.report.figure.paper_sizes import SHEETS
from harness.report.figure.style import house_style
from harness.report.frontier_cost import cost_figure, find_efficient, say_ticks
from harness.report.frontier_table import frontier_table, hypervolume_table
from harness.report.leakage import AUC
from harness.report.reading import Reading
from harness.report.tables import as_csv, as_latex
from harness.report.units import MARK, NO_BETTER


def test_a_line_for_every_cell_and_attack_with_its_numbers(quickstart: Reading) -> None:
    table = frontier_table(quickstart)
    assert len(table.rows) == len(quickstart.frontier) == 32
    row, line = quickstart.frontier[4], dict(zip(table.columns, table.rows[4], strict=True))
    assert line["cell"] == row["label"] == "dp-sgd ε=8"
    assert line["accuracy"] == "92.5 ± 0.8 %"
    half = max(row["auc"] - row["auc_low"], row["auc_high"] - row["auc"])
    assert line["AUC"] == f"{row['auc']:.3f} ± {half:.3f}"
    fractions = dict(zip(table.columns, table.plain[4], strict=True))
    assert fractions["accuracy"] == "0.9250 [0.9170, 0.9330]"
    assert fractions["accuracy"] in as_csv(table), "a program reads fractions, as in the views"
    assert line["TPR at 0.01 % FPR"] == "-", "not resolved"
    assert (line["guarantee"], line["ε"], line["ε computed"], line["valid"]) == (
        "approximate DP",
        "8",
        "7.984",
        "yes",
    )
    assert table.query == "select * from frontier"


def test_a_defence_not_tested_in_the_worst_case_is_marked(row: Any, reading: Any) -> None:
    kinds = {"pd-sgd": "average case only", "selena": "worst case too"}
    rows = [
        row(method=method, epsilon=None, guarantee_kind="empirical", tested=tested)
        for method, tested in kinds.items()
    ]
    found = [line[2] for line in frontier_table(reading(rows)).rows]
    assert found == ["empirical, average case only", "empirical"]


def test_an_accuracy_no_better_than_the_most_common_class_is_marked(row: Any, reading: Any) -> None:
    rows = [
        row(epsilon=1.0, accuracy=0.1, majority_accuracy=0.103, beats_majority=False),
        row(epsilon=8.0, accuracy=0.9, majority_accuracy=0.103, beats_majority=True),
        row(epsilon=9.0, accuracy=0.1, majority_accuracy=None, beats_majority=None),
    ]
    table = frontier_table(reading(rows))
    place = table.columns.index("accuracy")
    assert [line[place].endswith(MARK) for line in table.rows] == [True, False, False]
    assert any(NO_BETTER in text and "10.3 %" in text for text in table.protocol)
    assert MARK not in as_csv(table)
    assert r"\dag{}" in as_latex(table)


def test_how_a_row_stands_to_the_front(row: Any, reading: Any) -> None:
    rows = [
        row(epsilon=1.0, accuracy=0.90, mu=0.30),
        row(epsilon=4.0, accuracy=0.895, mu=0.31),
        row(epsilon=8.0, accuracy=0.8, mu=0.9),
        row(epsilon=2.0, accuracy=0.99, mu=0.01, valid=False),
        row(epsilon=2.0, accuracy=0.99, mu=0.01, attack="loss", valid=None),
    ]
    table = frontier_table(reading(rows))
    assert [line[-2:] for line in table.rows] == [
        ("yes", "yes"),
        ("yes", "near"),
        ("yes", "no"),
        ("NO", "no"),
        ("not checked", "no"),
    ]


def test_a_method_s_hypervolume_is_its_mean_accuracy_over_caps(row: Any, reading: Any) -> None:
    rows = [
        row(epsilon=1.0, accuracy=0.8, auc=0.5, auc_low=0.49, auc_high=0.51),
        row(epsilon=8.0, accuracy=0.9, auc=0.75, auc_low=0.74, auc_high=0.76),
        row(method="sgd", epsilon=None, accuracy=1.0, auc=0.9, models=1),
    ]
    lines = [line for line in hypervolume_table(reading(rows)).rows if line[1] == "AUC"]
    assert [line[3:7] for line in lines] == [("dp-sgd", "2", "2", "0.8500"), ("sgd", "1", "1", "0.2000")]
    low, high = map(float, lines[0][7].split(" to "))
    assert 0.83 < low < 0.85 < high < 0.87
    assert lines[1][7] == "-", "one model"


def test_empty_tables_have_no_lines(reading: Any) -> None:
    assert frontier_table(reading([])).rows == hypervolume_table(reading([])).rows == ()


def test_a_cheap_cell_behind_the_front_is_efficient(row: Any) -> None:
    good = row(epsilon=1.0, accuracy=0.9, mu=0.3, training_overhead=40.0)
    cheap = row(epsilon=4.0, accuracy=0.85, mu=0.4, training_overhead=2.0)
    worse = row(epsilon=8.0, accuracy=0.84, mu=0.5, training_overhead=2.0)
    unknown = row(epsilon=2.0, accuracy=0.99, mu=0.1, training_overhead=None)
    invalid = row(epsilon=3.0, accuracy=0.99, mu=0.1, training_overhead=1.0, valid=False)
    found = find_efficient([good, cheap, worse, unknown, invalid], AUC, "training_overhead")
    assert found == [good, cheap]


@pytest.mark.parametrize("columns", [None, "1", "2"])
def test_cost_is_drawn_where_it_is_known(row: Any, reading: Any, columns: Any) -> None:
    rows = [row(epsilon=e, mu=e / 10, accuracy=0.8 + e / 100, memory_overhead=None) for e in (1.0, 4.0)]
    sheet = SHEETS[columns]
    with house_style(sheet):
        figure = cost_figure(reading(rows), sheet)
    time, bar = figure.axes[0], figure.axes[-1]
    drawn = [np.asarray(line.get_xydata()).tolist() for line in time.get_lines() if line.get_marker() == "o"]
    points = sorted(point for each in drawn for point in each)
    assert points == [[row["tpr_at_1pct"], row["accuracy"]] for row in rows]
    found: list[Any] = figure.findobj(match=Text)
    stated = "too small to be resolved" in " ".join(text.get_text() for text in found).replace("\n", " ")
    assert stated == (columns != "1"), "one column has one panel"
    assert "time of the whole training" in bar.get_ylabel()


def test_few_of_many_efficient_cells_are_named(row: Any, reading: Any) -> None:
    rows = [row(epsilon=float(e), mu=e / 30, accuracy=0.6 + e / 100) for e in range(1, FRONT_NAMED + 9)]
    with house_style():
        time = cost_figure(reading(rows)).axes[0]
    names = [text.get_text() for text in time.texts]
    assert len(names) == FRONT_NAMED
    assert {rows[0]["label"], rows[-1]["label"]} <= set(names)


def test_ticks_have_the_digits_that_distinguish_them() -> None:
    assert say_ticks([0.67, 0.85, 1.07, 1.34]) == ["0.67", "0.85", "1.1", "1.3"]
    assert say_ticks([1.0, 1.063, 1.129, 1.2]) == ["1", "1.06", "1.13", "1.2"]
