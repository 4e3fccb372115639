from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text

from harness.report.figure.marks import MARKERS, PALETTE, assign_marks
from harness.report.figure.panels import FRONT_NAMED, NAMED, choose_panel, name_point
from harness.report.figure.paper_sizes import SCREEN, SHEETS, Sheet
from harness.report.figure.style import ALARM, house_style
from harness.report.frontier import CURVES, choose_curves, draw_frontier, frontier_figure
from harness.report.leakage import AUC, interval, rows_on_front
from harness.report.reading import Reading


def drawn(reading: Reading, sheet: Sheet = SCREEN) -> Figure:
    with house_style(sheet):
        return frontier_figure(reading, sheet)


def texts(figure: Figure) -> str:
    found: list[Any] = figure.findobj(match=Text)
    return "\n".join(text.get_text() for text in found)


def corners(line: Line2D) -> list[list[float]]:
    return np.asarray(line.get_xydata()).tolist()  # type: ignore[no-any-return]


def points(axes: Axes) -> list[Line2D]:
    """The markers of cells; those of one style are one artist."""
    curve = axes.get_xscale() == "log"
    return [] if curve else [line for line in axes.get_lines() if line.get_marker() in MARKERS]


def crosses(axes: Axes) -> list[Line2D]:
    return [line for line in axes.get_lines() if line.get_marker() == "x"]


def _intervals(rows: list[Any], at: str, of: str) -> list[tuple[float, tuple[float, ...]]]:
    return [(row[at], interval(row, of)) for row in rows]


@pytest.fixture(scope="module")
def figure(quickstart: Reading) -> Figure:
    return drawn(quickstart)


def test_one_row_of_panels_for_each_workload(figure: Figure) -> None:
    assert [axes.get_xlabel() for axes in figure.axes] == [
        *["TPR at 1 % FPR", "AUC", "false-positive rate"],
        *["TPR at 1 % FPR", "AUC", "false-positive rate"],
    ]
    drawn = [[len(corners(line)) for line in points(axes)] for axes in figure.axes]
    assert drawn == [[1, 3], [1, 3], [], [1, 3], [1, 3], []], "sgd, and dp-sgd at three epsilons"
    drawn_text = texts(figure)
    assert "digits-mlp · 8 models a cell, 5,752 non-members pooled" in drawn_text
    assert drawn_text.count("\nattack lira\n") == 4, "no row of strongest is there"
    assert "Failed: dp-sgd ε=0.1 on digits-mlp, 2 train task(s): diverged" in drawn_text
    assert {"ε=1", "ε=4", "ε=8", "sgd"} <= set(drawn_text.splitlines())


def test_points_stand_at_the_rows_numbers(quickstart: Reading, figure: Figure) -> None:
    tpr, auc, _ = figure.axes[3:]
    group = [row for row in quickstart.frontier if row["group"] == "digits-mlp"]
    rows = choose_panel(group, AUC).rows
    for axes, column in ((tpr, "tpr_at_1pct"), (auc, "auc")):
        found = sorted(point for line in points(axes) for point in corners(line))
        assert found == sorted([row[column], row["accuracy"]] for row in rows)
        bars = [collection for collection in axes.collections if isinstance(collection, LineCollection)]
        ends = sorted(np.asarray(end).tolist() for each in bars for end in each.get_segments())
        across = [[[low, y], [high, y]] for y, (low, _, high) in _intervals(rows, "accuracy", column)]
        upward = [[[x, low], [x, high]] for x, (low, _, high) in _intervals(rows, column, "accuracy")]
        assert ends == sorted([*across, *upward])


def test_roc_axes_are_logarithmic_with_the_diagonal_and_no_unresolved_part(figure: Figure) -> None:
    roc = figure.axes[2]
    assert (roc.get_xscale(), roc.get_yscale()) == ("log", "log")
    *curves, diagonal = roc.get_lines()
    assert len(curves) == 4
    assert all(x == y for x, y in corners(diagonal))
    assert all(x >= 10 / 5752 for curve in curves for x, _ in corners(curve))


def test_hollow_for_one_model_and_crossed_out_where_the_blind_check_failed(row: Any, reading: Any) -> None:
    rows = [
        row(epsilon=1.0, accuracy=0.8, mu=0.1),
        row(epsilon=4.0, accuracy=0.85, mu=0.2, models=1),
        row(epsilon=8.0, accuracy=0.99, mu=0.01, valid=False, method="pate", guarantee_kind="pure-dp"),
    ]
    axes = drawn(reading(rows)).axes[1]
    filled, hollow, invalid = points(axes)
    assert filled.get_markerfacecolor() != "white"
    assert hollow.get_markerfacecolor() == "white"
    assert invalid.get_marker() == assign_marks(["pate"])["pate"].marker
    (cross,) = crosses(axes)
    assert cross.get_color() == ALARM
    assert corners(cross) == [[rows[2]["auc"], 0.99]]
    front = axes.get_lines()[-1]
    assert max(y for _, y in corners(front)) < 0.99


def test_front_is_a_step_line_that_waits_for_the_leakage(row: Any, reading: Any) -> None:
    rows = [row(epsilon=1.0, accuracy=0.7, mu=0.1), row(epsilon=8.0, accuracy=0.9, mu=0.5)]
    axes = drawn(reading(rows)).axes[1]
    low, high, edge = rows[0]["auc"], rows[1]["auc"], axes.get_xlim()[1]
    assert corners(axes.get_lines()[-1]) == [[low, 0.7], [high, 0.7], [high, 0.9], [edge, 0.9]]


def test_single_model_cells_without_a_resolved_tpr_state_why(row: Any, reading: Any) -> None:
    few = {f"tpr_at_{name}": None for name in ("10pct", "1pct", "0p1pct", "0p01pct")}
    figure = drawn(reading([row(models=1, n_nonmembers=60, **few)]))
    assert "TPR at 10 % FPR needs 100 non-members,\nthe smallest cell has 60." in texts(figure)
    assert "1 model a cell" in texts(figure)


def test_a_name_may_be_anything(row: Any, reading: Any) -> None:
    odd = "$x^{ </b> \n" + "long " * 30
    figure = drawn(reading([row(workload=odd, method=odd, epsilon=None, attack=odd)]))
    assert "$x^{ </b> \N{REPLACEMENT CHARACTER}long" in texts(figure)


def test_many_cells_show_the_curves_of_the_front(row: Any) -> None:
    rows = [row(epsilon=float(i), accuracy=0.5 + i / 100, mu=0.05 * i) for i in range(1, 13)]
    shown, title = choose_curves(rows)
    assert len(shown) == CURVES
    assert f"{CURVES} of 12 cells" in title
    assert choose_curves(rows[:3])[0] == rows[:3]
    assert choose_curves([]) == ([], "no ROC stored")


def test_a_panel_notes_cells_without_its_attack(row: Any) -> None:
    rows = [row(attack="loss"), row(epsilon=1.0, attack="loss"), row(epsilon=2.0, attack="lira")]
    title = choose_panel(rows, AUC).title
    assert title == "attack loss (2 of 3 cells)"


def test_panels_show_the_strongest_of_each_cell_or_the_chosen_attack(row: Any, reading: Any) -> None:
    rows = [row(attack="strongest"), row(attack="lira")]
    titles = [axes.get_title() for axes in drawn(reading(rows)).axes]
    assert titles[:2] == ["strongest attack of each cell"] * 2
    titles = [axes.get_title() for axes in drawn(reading(rows, attack="lira")).axes]
    assert titles[:2] == ["attack lira"] * 2


def test_points_without_an_epsilon_are_named_by_the_rest_of_their_label(row: Any) -> None:
    assert name_point(row(method="sgd", epsilon=None)) == "sgd"
    assert name_point(row(method="pd-sgd", epsilon=None, label="pd-sgd T=3")) == "T=3"
    assert name_point(row(epsilon=float("inf"), epsilon_asked=None)) == "ε=∞"


def test_a_cell_that_is_indistinguishable_from_the_front_is_ringed(row: Any, reading: Any) -> None:
    rows = [row(epsilon=1.0, accuracy=0.90, mu=0.30), row(epsilon=4.0, accuracy=0.895, mu=0.31)]
    axes = drawn(reading(rows)).axes[1]
    rings = [line for line in points(axes) if line.get_markerfacecolor() == "none"]
    assert [corners(ring) for ring in rings] == [[[rows[1]["auc"], 0.895]]]


@pytest.mark.parametrize(("columns", "width"), [("1", 3.0), ("2", 7.0)])
def test_in_print_it_is_as_wide_as_its_columns_and_nothing_sticks_out(
    quickstart: Reading, columns: Any, width: float
) -> None:
    figure = drawn(quickstart, SHEETS[columns])
    assert figure.get_size_inches()[0] == width
    assert len(figure.axes) == {"1": 2, "2": 6}[columns], "one panel for each workload, or all"
    found: list[Any] = figure.findobj(match=Text)
    words = [text for text in found if len(text.get_text()) > 8]  # a tick beyond its axis is not drawn
    assert len(words) >= 8
    assert min(text.get_fontsize() for text in found) >= 6.5
    assert "95 % intervals" not in texts(figure), "notes are the caption's"
    assert not [text.get_text() for text in words if text.get_window_extent().x1 > figure.bbox.x1]


@pytest.mark.slow
def test_figures_and_tables_are_written_in_every_form(row: Any, reading: Any, tmp_path: Path) -> None:
    rows = [row(epsilon=1.0), row(epsilon=None, method="sgd", accuracy=0.97, mu=1.0)]
    files = draw_frontier(reading(rows, where="workload = 'digits-mlp'"), tmp_path)
    names = [f"{stem}.{form}" for stem in ("frontier", "frontier-cost") for form in ("png", "svg", "pdf")]
    ends = (".md", ".tex", ".csv", ".csv-metadata.json")
    names += [f"{stem}{end}" for stem in ("frontier", "hypervolume") for end in ends]
    assert [file.name for file in files] == names
    for file in files:
        if file.suffix in (".svg", ".pdf", ".md", ".tex", ".json"):
            assert b"digits-mlp" in file.read_bytes() and b"select * from frontier" in file.read_bytes()


def test_rows_without_an_accuracy_are_left_out_and_do_no_harm(row: Any, reading: Any) -> None:
    axes = drawn(
        reading([row(epsilon=1.0, accuracy_low=None, accuracy=0.8), row() | {"accuracy": None}])
    ).axes[1]
    assert len(points(axes)) == 1
    assert AUC.name in axes.get_xlabel()


@pytest.mark.parametrize("changes", [{"failures": []}, {"where": "method = 'x'"}])
def test_nothing_to_draw_is_stated(reading: Any, changes: dict[str, Any]) -> None:
    drawn_text = texts(drawn(reading([], **changes)))
    assert ("privbench quickstart" in drawn_text) == ("where" not in changes)
    assert ("method = 'x'" in drawn_text) == ("where" in changes)


def test_a_crowded_panel_labels_its_front_and_notes_it(row: Any, reading: Any) -> None:
    rows = [row(epsilon=float(e), accuracy=0.5 + e % 7 / 100, mu=0.02 * e) for e in range(1, NAMED + 2)]
    figure = drawn(reading(rows))
    note = f"In a panel of more than {NAMED} cells, up to {FRONT_NAMED} of those on the front are named"
    assert note in texts(figure)
    names = [text.get_text() for text in figure.axes[1].texts]
    assert len(names) == 6
    assert names == [name_point(each) for each in rows_on_front(rows, AUC)]


def test_of_a_long_front_a_few_cells_are_named_from_end_to_end(row: Any, reading: Any) -> None:
    rows = [row(epsilon=float(e), accuracy=0.5 + e / 100, mu=0.02 * e) for e in range(1, NAMED + 9)]
    names = [text.get_text() for text in drawn(reading(rows)).axes[1].texts]
    assert len(names) == FRONT_NAMED
    assert {names[0], names[-1]} == {name_point(rows[0]), name_point(rows[-1])}


def test_of_many_cells_some_are_drawn_with_the_whole_front_and_the_panel_notes_it(
    row: Any, reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.report.figure.panels.DRAWN", 30)
    rows = [row(epsilon=float(e), accuracy=0.5 + e % 7 / 100, mu=0.02 * e) for e in range(1, 62)]
    panel = choose_panel(rows, AUC)
    cells = [each["cell"] for each in panel.drawn]
    assert len(cells) == 30
    assert {each["cell"] for each in rows_on_front(rows, AUC)} < set(cells)
    assert (cells[0], cells[-1]) == (rows[0]["cell"], rows[-1]["cell"])
    assert "30 of 61 cells drawn, the table has all" in texts(drawn(reading(rows))).replace("\n", " ")


def test_all_equal_cells_are_all_on_the_front_and_some_are_named(row: Any, reading: Any) -> None:
    rows = [row(epsilon=float(e), accuracy=0.7, mu=0.5) for e in range(1, 3 * NAMED)]
    assert len([text for text in drawn(reading(rows)).axes[1].texts if text.get_text()]) == FRONT_NAMED


def legend(figure: Figure) -> list[str]:
    legends: list[Any] = figure.findobj(match=Legend)
    return [text.get_text() for each in legends for text in each.get_texts() if each.axes is None]


def test_a_legend_has_only_what_is_drawn(row: Any, reading: Any) -> None:
    rows = [row(epsilon=1.0, accuracy=0.8, mu=0.1), row(method="sgd", epsilon=None, accuracy=0.95, mu=0.9)]
    assert legend(drawn(reading(rows))) == [
        "sgd",
        "dp-sgd (approximate DP)",
        "front of valid cells",
        "guessing",
    ]
    single = row(method="pate", epsilon=4.0, models=1, accuracy=0.7, mu=0.8, valid=False)
    assert legend(drawn(reading([*rows, single])))[-4:-2] == ["one model", "blind check failed"]


@pytest.mark.parametrize("others", [(), ("sgd",), ("pate", "pd-sgd", "selena", "sgd")])
def test_a_method_has_its_colour_and_marker_whatever_else_is_drawn(
    others: tuple[str, ...], row: Any, reading: Any
) -> None:
    rows = [row(method=method, epsilon=None, mu=0.2 + place) for place, method in enumerate(others)]
    axes = drawn(reading([row(epsilon=2.0, accuracy=0.6, mu=0.1), *rows])).axes[0]
    (own,) = [line for line in points(axes) if [y for _, y in corners(line)] == [0.6]]
    assert (own.get_markerfacecolor(), own.get_marker()) == (PALETTE[0], "o")


def test_kinds_of_guarantee_are_stated_and_not_mixed(row: Any, reading: Any) -> None:
    rows = [
        row(method="pate", epsilon=1.0, mu=0.1, guarantee_kind="approximate-dp"),
        row(method="pate", epsilon=2.0, mu=0.4, guarantee_kind="claimed-disputed"),
        row(method="selena", epsilon=None, mu=0.6, guarantee_kind="empirical"),
    ]
    figure = drawn(reading(rows))
    assert legend(figure)[:2] == ["pate (approximate DP, claimed, disputed)", "selena (empirical)"]
    names = {text.get_text() for text in figure.axes[0].texts}
    assert {"ε=1, approximate DP", "ε=2, claimed, disputed"} <= names


def test_points_are_named_by_the_epsilon_that_was_asked_for(row: Any) -> None:
    assert name_point(row(epsilon=8.0) | {"epsilon": 7.9}) == "ε=8"
    assert name_point(row(epsilon=8.0, epsilon_asked=None) | {"epsilon": 7.9}) == "ε=7.9"


@pytest.mark.parametrize(
    ("panels", "labels"),
    [
        (("roc",), ["false-positive rate"]),
        (("frontier", "roc"), ["TPR at 1 % FPR", "false-positive rate"]),
        (("auc",), ["AUC"]),
    ],
)
def test_chosen_panels_are_drawn(panels: tuple[str, ...], labels: list[str], row: Any, reading: Any) -> None:
    figure = drawn(reading([row()]), replace(SCREEN, panels=panels))
    assert [axes.get_xlabel() for axes in figure.axes] == labels


def test_in_one_column_the_auc_stands_in_for_an_unresolved_rate(row: Any, reading: Any) -> None:
    few = {f"tpr_at_{name}": None for name in ("10pct", "1pct", "0p1pct", "0p01pct")}
    figure = drawn(reading([row(models=1, n_nonmembers=60, **few)]), SHEETS["1"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["AUC, attack lira"]


@pytest.mark.slow
def test_the_caption_of_a_printed_figure_is_in_its_metadata(quickstart: Reading, tmp_path: Path) -> None:
    files = {file.name: file for file in draw_frontier(quickstart, tmp_path, SHEETS["1"])}
    for name in ("frontier.png", "frontier.svg"):
        content = files[name].read_bytes()
        assert b"select * from frontier" in content and b"intervals over seeds" in content
        assert b"diverged" in content, "failures stay visible"
