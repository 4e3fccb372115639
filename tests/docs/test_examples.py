"""The examples of the guides, run as a reader would: by `privbench run`, from installed packages."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.results.query import query

Blocks = list[tuple[str, str, str, str]]

# One process of pytest-xdist runs them all, so that the examples are trained once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("docs")]

CHEAP = {"list", "show", "status", "query", "collect", "data", "doctor"}
"""Commands of the README that are quick on an existing store."""


def rows(store: Path, condition: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query(store, f"select * from frontier where {condition}").arrow.to_pylist()
    return found


DECLARED = ("loss", "lira", "rmia", "strongest")
"""Attacks that always run."""


def test_the_method_runs_without_a_guarantee(store: Path) -> None:
    found = rows(store, "method = 'noisy-sgd'")
    assert len(found) == 2 + len(DECLARED)
    for row in found:
        assert row["accuracy"] > 0.5
        assert (row["guarantee_kind"], row["epsilon"]) == ("empirical", None)
        assert row["example_overhead"] > 0
        assert row["training_overhead"] > 0
    stats = query(
        store, "select stats from model_run join cell on cell.key = cell where method = 'noisy-sgd'"
    )
    assert all(0 <= json.loads(text)["clipped_share"] <= 1 for (text,) in stats.rows)


def test_the_calibrated_method_spends_what_it_was_given(store: Path) -> None:
    found = rows(store, "method = 'dp-gd'")
    assert len(found) == 2 + len(DECLARED)
    for row in found:
        assert row["guarantee_kind"] == "approximate-dp"
        assert 7.9 < row["epsilon"] <= 8
        assert json.loads(row["params"])["noise_multiplier"] > 0
        assert row["accuracy"] > 0.5


def test_the_workload_runs_with_its_recipe(store: Path) -> None:
    found = rows(store, "workload = 'breast-cancer'")
    assert len(found) == 2 + len(DECLARED)
    for row in found:
        assert row["accuracy"] > 0.9
        assert row["valid"]
        params = json.loads(row["params"])
        assert (params["batch_size"], params["steps"]) == (32, 200)


def test_the_attack_scores_every_cell_with_both_of_its_references(store: Path) -> None:
    found = rows(store, "attack = 'calibrated-margin'")
    assert len(found) == 8
    assert {json.loads(row["attack_params"])["references"] for row in found} == {"absent", "others"}
    assert all(row["auc_low"] <= row["auc"] <= row["auc_high"] for row in found)


def test_nothing_failed(store: Path) -> None:
    assert query(store, "select * from failures").rows == []


def test_the_examples_keep_the_contracts(environment: dict[str, str], root: Path, tmp_path: Path) -> None:
    """Contract tests walk the families, and the families hold the plug-ins."""
    names = "noisy-sgd or dp-gd or breast-cancer or calibrated-margin"
    tests = ["tests/contracts", "tests/contracts/test_attacks.py"]
    options = ["-v", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'inner'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests, "-k", names, *options],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counted = {name: done.stdout.count(f"[{name}") for name in names.split(" or ")}
    assert all(count >= 5 for count in counted.values()), counted


def test_the_examples_are_in_the_house_style(plugins: Path, root: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", str(root / "pyproject.toml"), str(plugins)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_cheap_commands_of_the_readme_work(
    store: Path, blocks: Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVBENCH_STORE", str(store))
    lines = [
        line
        for page, language, _, text in blocks
        if (page, language) == ("README.md", "sh")
        for line in text.splitlines()
        if line.startswith("privbench ") and line.split()[1] in CHEAP
    ]
    assert len(lines) >= 6
    for line in lines:
        done = CliRunner().invoke(app.app, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
