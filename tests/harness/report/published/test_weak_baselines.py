"""Cells of the private baseline beside the best published line on the same data."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from harness.cli import summary
from harness.report.published.weak_baselines import notices, tabulate_baselines
from harness.results.collect import collect
from harness.results.query import open_reader
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from tests.harness.simulated import publish
from workloads.errors import SpecError


def cell(workload: str, n_train: int, method: str = "dp-sgd", seed: int = 0, **params: Any) -> Cell:
    given = {"batch_size": 512, "steps": 90, "delta": 1e-5, **params}
    return Cell(Plugin(workload, "1"), n_train, Plugin(method, "1"), given, seed)


WEAK = cell("mnist-cnn", 50_000, epsilon=3.0)
EQUAL = cell("mnist-cnn", 50_000, epsilon=3.0, seed=1)
ALONE = cell("mnist-cnn", 50_000, epsilon=3.0, seed=2)
PRIVATE = cell("mnist-cnn", 50_000, epsilon=2.4, seed=3)
"""Its price is below 3, and its epsilon by the classic conversion 3."""
STRICT = cell("mnist-cnn", 50_000, epsilon=0.4)
SMALL = cell("mnist-cnn", 30_000, epsilon=3.0)
DELTA = cell("mnist-cnn", 50_000, epsilon=3.0, delta=1e-6)
CANARY = Cell(WEAK.workload, 50_000, WEAK.method, WEAK.params, 5, canary="mislabelled", canaries=10)
OTHER = cell("mnist-cnn", 50_000, "dpsgd-ts", epsilon=3.0)
FASHION = cell("fmnist-cnn", 50_000, epsilon=1.0)
DIGITS = cell("digits-mlp", 700, epsilon=3.0)


def train(store: Store, on: Cell, *accuracies: float, classic: float | None = None) -> None:
    epsilon = float(on.params["epsilon"])
    guarantee = {
        "kind": "approximate-dp",
        "epsilon": epsilon,
        "delta": on.params["delta"],
        "adjacency": "add-or-remove-one",
        "accountant": "pld",
        "epsilons": {"pld": epsilon, "rdp": 1.1 * epsilon, "rdp_classic": classic or 1.25 * epsilon},
    }
    for index, accuracy in enumerate(accuracies):
        metrics = {"test_accuracy": accuracy, "train_accuracy": accuracy}
        payload = {"metrics": metrics, "guarantee": guarantee, "stats": {}, "phases": {}}
        publish(store, Task("train", on, index=index), payload)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("baselines") / "store", create=True)
    train(store, WEAK, 0.960, 0.961, 0.962)
    train(store, EQUAL, 0.95, 0.97, 0.99)
    train(store, ALONE, 0.96)
    train(store, PRIVATE, 0.96, classic=2.9946)
    train(store, STRICT, 0.5)
    train(store, SMALL, 0.5)
    train(store, DELTA, 0.5)
    train(store, CANARY, 0.5)
    train(store, OTHER, 0.5)
    train(store, FASHION, 0.70, 0.71)
    train(store, DIGITS, 0.5)
    collect(store.path)
    return store


@pytest.fixture
def found(store: Store) -> dict[str, dict[str, Any]]:
    with duckdb.connect(str(store.database), read_only=True) as connection:
        rows = connection.execute("from baseline").to_arrow_table().to_pylist()
    return {row["cell"]: row for row in rows}


def test_every_cell_of_the_baseline_on_published_data_is_a_row(found: dict[str, dict[str, Any]]) -> None:
    there = {each.key for each in (WEAK, EQUAL, ALONE, PRIVATE, STRICT, SMALL, DELTA, FASHION)}
    assert set(found) == there
    assert {row["dataset"] for row in found.values()} == {"mnist", "fashion-mnist"}


def test_the_line_is_the_most_accurate_one_that_is_no_less_private(found: dict[str, dict[str, Any]]) -> None:
    # Scattering features at epsilon 3 by the classic conversion; DPSUR's 98.88 is a disputed epsilon.
    row = found[WEAK.key]
    assert (row["published_accuracy"], row["published_key"]) == (0.987, "handcrafted-dp-readme/003/0")
    assert (row["epsilon_printed"], row["epsilon_recounted"], row["accountant_printed"]) == (
        3,
        3.75,
        "rdp_classic",
    )
    assert row["difference"] == pytest.approx(0.961 - 0.987)


def test_epsilons_are_compared_by_the_accountant_of_the_paper(found: dict[str, dict[str, Any]]) -> None:
    row = found[PRIVATE.key]
    assert (row["epsilon"], row["epsilon_recounted"], row["epsilon_printed"]) == (2.4, 2.9946, 3)
    assert row["published_accuracy"] == 0.987


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(STRICT, id="every line is less private"),
        pytest.param(SMALL, id="every line has twice as many records"),
        pytest.param(DELTA, id="every line has a larger delta"),
    ],
)
def test_without_a_comparable_line_nothing_is_said(found: dict[str, dict[str, Any]], each: Cell) -> None:
    row = found[each.key]
    assert (row["published_accuracy"], row["difference"], row["published_key"]) == (None, None, None)


def test_the_report_judges_by_the_upper_end_of_the_interval(store: Store) -> None:
    table = tabulate_baselines(store.path, "workload = 'mnist-cnn' and n_train = 50000 and epsilon = 3")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    findings = {row["accuracy"]: row["finding"] for row in rows if row["published"] != "-"}
    assert findings == {"96.10 ± 0.25 %": "weak", "97.00 ± 4.97 %": "not weak", "96.00 (one model) %": "weak"}
    assert table.counts == "4 cells, 2 of them weak."
    assert [row["difference"] for row in rows] == ["-2.70", "-2.60", "-1.70", "-"]
    assert all("by the classic conversion" in text for text in table.remarks)


def test_a_run_is_told_once_per_data_set(store: Store) -> None:
    cells = [WEAK, ALONE, EQUAL, STRICT, FASHION]
    with open_reader(store.path) as reader:
        texts = notices(reader, [each.key for each in cells], {each.key: each.label for each in cells})
        assert notices(reader, [EQUAL.key, STRICT.key], {}) == []
    fashion, mnist = texts
    assert fashion.startswith("WEAK BASELINE on fashion-mnist: fmnist-cnn, dp-sgd ε=1, 70.50 ± 6.35 %, is ")
    assert "86.25 % by DPIS (FMNIST) at epsilon 1" in fashion
    assert "mnist-cnn, dp-sgd ε=3, 96.00 (one model) %, is 2.7 points below 98.7 %" in mnist
    assert "and 1 more cells are weak" in mnist


def test_the_summary_of_a_run_says_so(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    summary.frontier(store, [WEAK, STRICT])
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("WEAK BASELINE") == 1
    assert "WEAK BASELINE on mnist: mnist-cnn, dp-sgd ε=3" in shown
    assert "See `privbench report baseline`" in shown


def test_a_condition_without_rows_is_refused(store: Store) -> None:
    with pytest.raises(SpecError) as refused:
        tabulate_baselines(store.path, "dataset = 'lfw'")
    assert refused.value.value == "dataset = 'lfw'"


def test_an_empty_store_has_no_baselines(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    collect(store.path)
    assert tabulate_baselines(store.path).counts == "0 cells, 0 of them weak."
