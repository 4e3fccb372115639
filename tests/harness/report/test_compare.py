"""The comparison report: the sentence about a pair, and the figure."""

from pathlib import Path
from typing import Any

from harness.report.compare import compare_figure, compare_table, describe, draw_compare


def row(**changes: Any) -> dict[str, Any]:
    found = {
        "axis": "accuracy", "workload": "digits-mlp", "label": "sgd", "other_label": "dp-sgd ε=8",
        "models": 8,
        "difference": 0.014, "low": 0.005, "high": 0.023, "se": 0.004, "p": 0.008, "p_holm": 0.03,
        "effect_size": 1.3, "detectable": 0.012, "reason": None,
    }  # fmt: skip
    return found | changes


def test_a_winner_needs_holms_p_below_five_per_cent() -> None:
    assert describe(row()) == "sgd is more accurate by 1.4 points [0.5, 2.3], p = .008 (Holm .03)"
    close = describe(row(p_holm=0.06, difference=0.003, low=-0.009, high=0.015, detectable=0.013))
    assert close == "indistinguishable (difference 0.3 points [-0.9, 1.5]; 8 models can show 1.3 points)"


def test_less_leakage_is_better() -> None:
    assert describe(row(axis="auc", difference=0.1, low=0.05, high=0.15)).startswith(
        "dp-sgd ε=8 leaks less by 0.100"
    )


def test_a_missing_comparison_has_its_reason() -> None:
    nothing = dict.fromkeys(("difference", "low", "high", "se", "p", "p_holm", "effect_size", "detectable"))
    assert (
        describe(row(**nothing, reason="needs at least 4 models")) == "not compared: needs at least 4 models"
    )


def test_figure_and_table_show_every_pair(tmp_path: Path) -> None:
    rows = [row(), row(axis="auc", p_holm=0.5), row(axis="tpr_at_1pct", workload="digits-linear")]
    assert len(compare_figure(rows).axes) == 3
    table = compare_table(rows, "select 1")
    assert table.counts == "3 comparisons, 2 with Holm's p below 5 %."
    names = {file.name for file in draw_compare(rows, "select 1", tmp_path)}
    assert {"compare.png", "compare.svg", "compare.pdf", "compare.md", "compare.tex", "compare.csv"} <= names


def test_without_rows_the_figure_states_what_to_run() -> None:
    assert not compare_figure([]).axes
