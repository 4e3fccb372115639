"""examples/plugin, installed by pip and run by its own sweep, then put to the contract tests."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("diabetes", "label-smoothing", "modified-entropy")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("plugin")]


def call(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a process that finds the package, which pip built and installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(ROOT / "examples/plugin", folder / "source")
    here = os.environ | {"XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "cache")}
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder / "site")]
    call(["-m", "pip", "install", *options, str(source)], folder, here)
    path = [str(folder / "site"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return here | {"PYTHONPATH": os.pathsep.join(filter(None, path))}


@pytest.fixture(scope="module")
def rows(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The frontier of the package's sweep, with fewer models."""
    folder = tmp_path_factory.mktemp("run")
    sweep = (ROOT / "examples/plugin/sweep.toml").read_text(encoding="utf-8")
    assert "models = 8" in sweep
    (folder / "sweep.toml").write_text(sweep.replace("models = 8", "models = 3"), encoding="utf-8")
    call(["-m", "harness.cli", "run", "sweep.toml", "--slots", "1"], folder, environment)
    sql = "select * from frontier where attack = 'modified-entropy'"
    found: list[dict[str, Any]] = json.loads(
        call(["-m", "harness.cli", "query", sql, "--format", "json"], folder, environment)
    )
    return found


def test_its_sweep_runs(rows: list[dict[str, Any]]) -> None:
    assert sorted(row["method"] for row in rows) == ["dp-sgd", "label-smoothing", "label-smoothing", "sgd"]
    assert all(row["valid"] and row["accuracy"] > 0.6 for row in rows)


def test_its_method_promises_nothing_and_its_attack_finds_members(rows: list[dict[str, Any]]) -> None:
    by_method = {row["method"]: row for row in rows}
    smoothed, plain = by_method["label-smoothing"], by_method["sgd"]
    assert (smoothed["guarantee_kind"], smoothed["epsilon"]) == ("empirical", None)
    assert plain["auc"] > 0.5


def test_it_keeps_the_contracts(environment: dict[str, str], tmp_path: Path) -> None:
    options = ["-v", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'inner'}"]
    words = ["-m", "pytest", "tests/contracts", "-k", " or ".join(NAMES), *options]
    printed = call(words, ROOT, environment)
    counted = {name: printed.count(f"[{name}") for name in NAMES}
    assert all(count >= 5 for count in counted.values()), counted
