"""The quickstart as a new user runs it: its rows, what they must show, and that nothing is trained twice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def privbench(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", *arguments, "--store", str(store)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quickstart") / "store"
    done = privbench(path, "quickstart")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8/8 cells, 104/104 tasks" in done.stdout
    return path


@pytest.fixture(scope="module")
def rows(store: Path) -> list[dict[str, Any]]:
    asked = privbench(store, "query", "select * from frontier", "--format", "json")
    found: list[dict[str, Any]] = json.loads(asked.stdout)
    return found


def cell(rows: list[dict[str, Any]], label: str, attack: str) -> dict[str, Any]:
    (row,) = (
        row for row in rows if (row["workload"], row["label"], row["attack"]) == ("digits-mlp", label, attack)
    )
    return row


def test_one_row_per_cell_and_attack(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 8 * 4
    for row in rows:
        assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]
        assert row["auc_low"] < row["auc"] < row["auc_high"]
        assert row["models"] == 8
        assert row["valid"] is True
        assert row["tpr_at_1pct"] is not None
        assert row["tpr_at_0p1pct"] is None
        assert "needs N >=" in row["tpr_at_0p1pct_reason"]


def test_privacy_costs_accuracy_and_buys_less_leakage(rows: list[dict[str, Any]]) -> None:
    free, private = cell(rows, "sgd", "lira"), cell(rows, "dp-sgd ε=1", "lira")
    assert free["accuracy"] > private["accuracy"]
    assert free["auc_low"] > private["auc_high"]


def test_the_price_is_at_or_below_the_target(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["method"] == "dp-sgd":
            assert 0.99 * row["epsilon_asked"] < row["epsilon"] <= row["epsilon_asked"]
            assert row["epsilon_rdp"] >= row["epsilon"]
        else:
            assert row["epsilon"] is None


def test_the_report_is_written(store: Path) -> None:
    names = {file.name for file in (store / "reports").iterdir()}
    assert {"index.html", "frontier.png", "frontier.svg", "overhead.png", "overhead.svg"} <= names


def test_repeating_it_trains_nothing(store: Path) -> None:
    again = privbench(store, "quickstart")
    assert again.returncode == 0
    assert "104 tasks, 0 to run" in again.stdout
