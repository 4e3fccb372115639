"""Tables at fixed widths: no line is longer, a row of figures is one line, and what is left out is named."""

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from harness.cli.summary import FRONTIER, frontier_rows
from harness.cli.terminal.fitting import FittedTable, Layout

WORKLOADS = ("purchase100-shokri-mlp-synthetic", "digits-linear")
LABELS = (
    "sgd",
    "dp-sgd ε=8 clip=0.5 steps=300",
    "dp-sgd ε=8 clip=1 steps=300",
    "dp-sgd ε=8 clip=1.5 steps=300",
)


def row(workload: str, label: str, **changes: Any) -> dict[str, Any]:
    """A row of the view `frontier`, as far as the summary reads it."""
    figures: dict[str, float | None] = {
        "accuracy": 0.966,
        "auc": 0.622,
        "tpr_at_1pct": 0.067,
        "tpr_at_10pct": 0.2,
    }
    figures |= {"tpr_at_0p1pct": None, "tpr_at_0p01pct": None}
    found: dict[str, Any] = {"workload": workload, "label": label, "cell": f"{workload} {label}", "models": 8}
    for name, value in figures.items():
        found |= {name: value, f"{name}_low": value and value - 0.015, f"{name}_high": value and value + 0.02}
    found |= {"attack": "strongest", "epsilon": 7.987, "guarantee_kind": "approximate-dp", "tested": None}
    found |= {
        "step_overhead": None,
        "example_cpu_overhead": 1.31,
        "training_overhead": 2.13,
        "on_front": True,
        "accuracy_study_low": None,
        "accuracy_study_high": None,
        "tuned": "no",
    }
    return {**found, "majority_accuracy": 0.1, "beats_majority": True, **changes}


def drawn(rows: list[dict[str, Any]], width: int, layout: Layout = FRONTIER, wide: bool = False) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=False)
    console.print(FittedTable(rows, "table", layout, wide), crop=not wide)
    return text.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [60, 80, 100, 120, 180])
def test_the_frontier_has_one_line_for_each_cell_and_no_line_is_too_long(width: int) -> None:
    rows = frontier_rows([row(workload, label) for workload in WORKLOADS for label in LABELS], wide=False)
    lines = drawn(rows, width)
    assert max(map(cell_len, lines)) <= width
    cells = [line for line in lines if "96.6 ± 2.0 %" in line]
    assert len(cells) == len(rows)
    assert all("6.7 ± 2.0 %" in line and "7.99" in line and "★" in line for line in cells)
    names = {line.partition("96.6")[0] for line in cells[: len(LABELS)]}
    assert len(names) == len(LABELS), "distinct names stay distinct"
    assert any(workload in line for workload in WORKLOADS for line in lines)


def test_more_columns_appear_as_the_terminal_grows() -> None:
    rows = frontier_rows([row("digits-linear", label) for label in LABELS], wide=False)
    shown = [set(FittedTable(rows, layout=FRONTIER).fit(width).dropped) for width in (60, 80, 100, 120, 180)]
    assert shown == sorted(shown, key=len, reverse=True)
    assert shown[0] > {"AUC"}
    assert shown[-1] == set()
    named = " ".join(drawn(rows, 80)[-1:])
    assert "Not shown" in named
    assert "kind" in named


def test_wide_has_every_column_both_ends_of_intervals_and_every_attack() -> None:
    given = [row("digits-linear", "sgd", attack=attack) for attack in ("loss", "lira", "strongest")]
    lines = drawn(frontier_rows(given, wide=True), 80, wide=True)
    assert sum("96.6 % [95.1, 98.6]" in line for line in lines) == 3
    assert all(
        name in lines[1] for name in ("attack", "TPR at 10 % FPR", "kind", "training", "time", "models")
    )
    assert max(map(cell_len, lines)) > 80
    assert not any("Not shown" in line for line in lines)


def test_a_rate_that_some_cells_do_not_resolve_gives_way_to_one_that_all_do() -> None:
    given = [row("w", "sgd"), row("w", "dp-sgd ε=1", tpr_at_1pct=None)]
    (first, _) = frontier_rows(given, wide=False)
    assert "TPR at 10 % FPR" in first
    assert "TPR at 1 % FPR" not in first


def test_an_accuracy_no_better_than_the_most_common_class_is_marked() -> None:
    given = [
        row("w", "sgd"),
        row("w", "dp-sgd ε=1", beats_majority=False),
        row("w", "x", beats_majority=None),
    ]
    assert [each["accuracy"][0] == "†" for each in frontier_rows(given, wide=False)] == [False, True, False]


def test_prose_wraps_between_words_and_names_do_not() -> None:
    about = "a sentence of quite a few words that does not fit into the rest of the line at eighty columns"
    rows = [{"name": "x" * 50 + "1", "about": about}, {"name": "x" * 50 + "2", "about": "short"}]
    lines = drawn(rows, 80, Layout())
    assert max(map(cell_len, lines)) <= 80
    assert sum("…" in line for line in lines) == 2
    prose = " ".join(" ".join(line.split()[-20:]) for line in lines)
    assert all(word in prose for word in about.split())


def test_columns_go_in_the_order_of_the_layout_and_kept_ones_stay() -> None:
    rows = [dict.fromkeys("abcdefgh", "12345678")]
    fit = FittedTable(rows, layout=Layout(drop=("c", "a"), keep=("h",))).fit(50)
    assert {"c", "a"} <= set(fit.dropped)
    assert "h" not in fit.dropped
    assert list(fit.dropped) == sorted(fit.dropped), "named in the order of the columns"


def test_markup_in_a_cell_is_text() -> None:
    assert any("[red]x[/red]" in line for line in drawn([{"name": "[red]x[/red]", "n": 1}], 80, Layout()))
