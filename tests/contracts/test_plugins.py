"""Another package adds members through entry points; a broken one does not stop the rest."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "privbench-tiny"
version = "0.1"
[project.entry-points."privbench.methods"]
tiny = "privbench_tiny:method"
broken = "privbench_tiny:nothing_of_that_name"
[project.entry-points."privbench.attacks"]
coin = "privbench_tiny:attack"
[tool.setuptools]
py-modules = ["privbench_tiny"]
"""

MODULE = '''
"""A method that does not train and an attack that does not look."""
import numpy as np
from dp_accounting import NoOpDpEvent
from methods.base import Params, Released


class Tiny:
    version = "1"
    about = "releases an untrained model"
    source = "nobody"
    guarantee = "approximate-dp"
    caveats = ()
    Params = Params

    def train(self, members, problem, params, run):
        return Released(problem.model(run.seed("init")), NoOpDpEvent())


class Coin:
    version = "1"
    about = "tosses a coin"
    source = "nobody"
    caveats = ()
    Params = Params
    shadows = 0

    def scores(self, evidence, params):
        return np.random.default_rng(0).random(evidence.members.shape)


method = Tiny()
attack = Coin()
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package is installed into."""
    root = tmp_path_factory.mktemp("plugin")
    (root / "source").mkdir()
    (root / "source" / "pyproject.toml").write_text(PROJECT)
    (root / "source" / "privbench_tiny.py").write_text(MODULE)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(root / "site"), str(root / "source")], check=True)
    return root / "site"


def privbench(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "harness.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
def test_an_installed_package_adds_members(site: Path) -> None:
    done = privbench(site, "list", "methods", "--json")
    assert {"tiny", "sgd", "dp-sgd"} <= {row["name"] for row in json.loads(done.stdout)}


def test_a_broken_plug_in_is_noted_once_and_skipped(site: Path) -> None:
    done = privbench(site, "list", "methods", "--json")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "broken" in line
    assert "broken" not in {row["name"] for row in json.loads(done.stdout)}


@pytest.mark.slow
def test_a_broken_plug_in_is_silent_where_it_is_not_used(site: Path, tmp_path: Path) -> None:
    for command in (["list", "attacks"], ["show", "method", "tiny"], ["price", "dp-sgd", "--help"]):
        done = privbench(site, *command)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("command", [["show", "method", "broken"], ["plan", "--workload", "digits-linear"]])
def test_a_broken_plug_in_is_refused_with_the_reason(site: Path, command: list[str], tmp_path: Path) -> None:
    asked = [*command, "--method", "broken", "--store", str(tmp_path / "s")] if "plan" in command else command
    done = privbench(site, *asked)
    assert done.returncode == 2
    assert "nothing_of_that_name" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_doctor_lists_plug_ins_with_package_and_error(site: Path) -> None:
    done = privbench(site, "doctor", "--json")
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows["method tiny"]["state"] == rows["attack coin"]["state"] == "good"
    assert "privbench-tiny 0.1" in rows["method tiny"]["found"]
    assert rows["method broken"]["state"] == "broken"
    assert "nothing_of_that_name" in rows["method broken"]["found"]


@pytest.mark.slow
def test_its_members_run_like_ours(site: Path, tmp_path: Path) -> None:
    options = ["--workload", "digits-linear", "--method", "tiny", "--models", "3", "--attack", "coin"]
    store = ["--store", str(tmp_path / "store")]
    done = privbench(site, "run", *options, *store)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = privbench(
        site,
        "query",
        "select method, attack, auc, epsilon from frontier where attack = 'coin'",
        "--format",
        "json",
        *store,
    )
    (row,) = json.loads(asked.stdout)
    assert (row["method"], row["attack"], row["epsilon"]) == ("tiny", "coin", 0)
    assert abs(row["auc"] - 0.5) < 0.1
