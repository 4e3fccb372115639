"""Attacks that load the released models, from sweep to row; a cell that cannot be attacked fails alone."""

from pathlib import Path
from typing import Any

import pytest

import db
from harness.accounting.ceilings import bound_by_epsilon
from harness.jobs.loop import Stop, run_task
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.results.collect import collect
from harness.results.query import query
from harness.store import Store

MODELS = 3


def run(path: Path, attacks: list[Any], *grids: dict[str, Any]) -> Path:
    """Plan and run a sweep of three models a cell in this process, and collect it."""
    sweep, problems = read_sweep({"models": MODELS, "attacks": attacks, "grid": list(grids)}, "attacked")
    plan = make_plan(sweep, problems, None)
    store = Store.open(path, create=True)
    store.add(*plan.tasks)
    for task in plan.tasks:
        run_task(store, task.key, Stop())
    collect(store.path)
    return store.path


def rows(store: Path, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query(store, sql).arrow.to_pylist()
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quick = {"label-only": {"queries": 10}, "white-box": {"trees": 5}, "attribute-inference": {}}
    attacks = [{"attack": name, **params} for name, params in quick.items()]
    table = {"workload": "tabular-synthetic", "steps": 40}
    return run(
        tmp_path_factory.mktemp("models") / "store",
        attacks,
        {**table, "method": "sgd"},
        {**table, "method": "dp-sgd", "epsilon": 1},
    )


@pytest.mark.slow
def test_membership_from_the_model_is_a_row_of_the_frontier(store: Path) -> None:
    assert rows(store, "select * from failures") == []
    found = rows(store, "select method, attack, auc, n_members from frontier order by method, attack")
    attacks = ["label-only", "lira", "loss", "rmia", "strongest", "white-box"]
    assert [(row["method"], row["attack"]) for row in found] == [
        (method, attack) for method in ("dp-sgd", "sgd") for attack in attacks
    ]
    assert all(0.4 < row["auc"] <= 1 and row["n_members"] == MODELS * 1000 for row in found)


@pytest.mark.slow
def test_attribute_inference_has_its_ceiling_beside_it(store: Path) -> None:
    private, plain = rows(store, "select * from attribute order by method")
    for row in (private, plain):
        assert row["attribute"] == "feature 0, low or high"
        assert row["gap"] == pytest.approx(row["advantage_members"] - row["advantage_nonmembers"])
        assert row["gap_low"] < row["gap"] < row["gap_high"]
        assert row["prior"] == pytest.approx(0.5, abs=0.05)
        assert row["n_members"] == row["n_nonmembers"] == MODELS * 1000
    assert plain["gap_ceiling"] is None and plain["guarantee_kind"] == "none"
    lines = bound_by_epsilon(private["epsilon"], private["delta"], "add-or-remove-one")
    assert private["ceiling_by"] == "pld twice"
    assert 0.15 < private["gap_ceiling"] < 0.3 < lines.gap
    assert private["gap_low"] < private["gap_ceiling"]
    (row, *_) = rows(store, "select * from frontier where method = 'dp-sgd'")
    assert 0.01 < row["ceiling_tpr_at_1pct"] < lines.tpr["0.01"]
    assert row["ceiling_tpr_at_0p01pct"] < row["ceiling_tpr_at_0p1pct"] < row["ceiling_tpr_at_1pct"]
    assert row["ceiling_tpr_at_1pct"] < row["ceiling_tpr_at_10pct"] < row["ceiling_auc"] < lines.auc


@pytest.mark.slow
def test_every_figure_has_its_column(store: Path) -> None:
    """A misspelled one would be null in every row."""
    (row,) = rows(store, "select * from attribute_result limit 1")
    assert set(row) == {column.name for column in db.Base.metadata.tables["attribute_result"].columns}
    assert all(value is not None for value in row.values())


@pytest.mark.slow
def test_a_cell_that_cannot_be_attacked_fails_alone_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digits are rows of 64 numbers, none of them sensitive; a model of all of them has no non-members.

    Sent without the checks of a plan, as from a machine without the data.
    """
    monkeypatch.setattr("harness.plan.plan._ready", lambda plan: plan)
    digits = {"workload": "digits-linear", "method": "sgd", "steps": 5}
    attacks = ["loss", "attribute-inference", {"attack": "lira", "queries": 2}]
    store = run(tmp_path / "store", attacks, digits, {**digits, "n_train": 1437})
    failed = rows(store, "select attack, message from failures order by attack, message")
    assert [row["attack"] for row in failed] == [*["attribute-inference"] * 2, "lira"]
    assert all("declares a sensitive attribute" in row["message"] for row in failed[:2])
    assert "lira with queries = 2 needs mirrored" in failed[2]["message"]
    measured = rows(store, "select attack, n_train from frontier order by attack")
    assert [row["attack"] for row in measured] == ["lira", "loss", "rmia", "strongest"]
    assert {row["n_train"] for row in measured} == {718}, "without non-members there is no leakage to measure"
    null = rows(store, "select * from attack_result where auc is null and attack = 'loss'")
    assert [row["tpr_at_10pct_reason"] for row in null] == [
        "target 0 has 1437 members and 0 non-members: leakage needs at least one of each"
    ]
