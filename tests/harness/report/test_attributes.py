"""The report on attribute inference: the gap between members and non-members is what it calls leakage."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from harness.report.attributes import (
    COLUMNS,
    attribute_figure,
    attribute_table,
    draw_attributes,
    find_leak,
    write_attributes,
)
from harness.report.figure.paper_sizes import SHEETS
from harness.results.collect import collect
from harness.spec import Task
from harness.store import Store
from tests.harness.simulated import cells, fill, fill_findings, sweep_record
from workloads.errors import SpecError


def inference(**changes: Any) -> dict[str, Any]:
    """A row of the view: the model infers better than the imputation on everybody, members no better."""
    row = {
        "cell": "c" * 32,
        "workload": "tabular-synthetic",
        "method": "sgd",
        "label": "sgd",
        "attack": "attribute-inference",
        "attack_params": {"variant": "yeom"},
        "models": 4,
        "attribute": "feature 0",
        "accuracy_members": 0.75,
        "accuracy_nonmembers": 0.745,
        "imputation_members": 0.6,
        "imputation_nonmembers": 0.6,
        "advantage_members": 0.15,
        "advantage_nonmembers": 0.145,
        "gap": 0.005,
        "gap_low": -0.01,
        "gap_high": 0.02,
        "gap_ceiling": None,
    }
    return row | changes


def test_an_advantage_on_everybody_is_no_leak() -> None:
    assert find_leak(inference()) == "no leak found"
    leaking = inference(gap=0.05, gap_low=0.02, gap_high=0.08)
    assert find_leak(leaking).startswith("leak")
    table = attribute_table([inference(), leaking], "select")
    assert [dict(zip(COLUMNS, row, strict=True))["gap"] for row in table.rows] == [
        "+0.5 [-1.0, +2.0]",
        "+5.0 [+2.0, +8.0]",
    ]
    first = dict(zip(COLUMNS, table.rows[0], strict=True))
    assert first["members"] == "75.0 % (imputation 60.0 %)"
    assert first["highest gap"] == "-"
    assert "2 inferences, 1 with" in table.counts


def test_variants_of_the_attack_are_distinguished() -> None:
    other = inference(attack_params={"variant": "confidence"})
    names = {row[COLUMNS.index("attack")] for row in attribute_table([inference(), other], "").rows}
    assert len(names) == 2


def test_a_ceiling_is_drawn_only_where_it_does_not_dwarf_the_gaps() -> None:
    def marks(ceiling: float) -> int:
        figure = attribute_figure([inference(gap_ceiling=ceiling)])
        return sum(line.get_marker() == "|" for line in figure.axes[-1].lines)

    assert (marks(0.03), marks(0.9)) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "panels"), [(None, 2), ("1", 1), ("2", 2)])
def test_figures_fit_their_sheet(tmp_path: Path, columns: Any, panels: int) -> None:
    rows = [inference(label=f"dp-sgd ε={number}", gap_ceiling=0.02) for number in range(3)]
    draw_attributes(rows, "select", tmp_path, SHEETS[columns])
    assert len(attribute_figure(rows, SHEETS[columns]).axes) == panels
    if columns:
        assert imread(tmp_path / "attributes.png").shape[1] == {"1": 900, "2": 2100}[columns]


@pytest.mark.slow
def test_rows_come_from_the_view_and_from_the_sweep(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    fill(store)
    fill_findings(store)
    with_it, without = cells("digits-mlp")[1], cells("digits-mlp")[0]
    store.write_sweep(sweep_record("with", Task("train", with_it)))
    store.write_sweep(sweep_record("without", Task("train", without)))
    collect(store.path)
    names = {file.name for file in write_attributes(store.path, tmp_path / "out", sweep="with")}
    assert {"attributes.png", "attributes.tex", "attributes.csv", "attributes.md"} <= names
    text = (tmp_path / "out/attributes.md").read_text()
    assert "sex" in text and "sweep_task" in text, "the query behind it is stated"
    with pytest.raises(SpecError) as refused:
        write_attributes(store.path, tmp_path / "none", sweep="without")
    assert (refused.value.field, refused.value.value) == ("--sweep", "without")
    assert not (tmp_path / "none").exists()


def test_without_any_it_states_what_to_run() -> None:
    (_, text) = attribute_figure([]).texts
    assert "--attack attribute-inference" in " ".join(text.get_text().split())
