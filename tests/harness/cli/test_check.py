"""Own data from the command line: `plan` and `run` refuse mistakes at once, `check` explains them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OWN_DATA = Path(__file__).parents[1] / "own_data.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the plug-in as an installed package would."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(OWN_DATA, folder / "privbench_own_data.py")
    info = folder / "privbench_own_data-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: privbench-own-data\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[privbench.workloads]\nown-data = privbench_own_data:workload\n")
    return folder


def privbench(site: Path, mistake: str, *words: str) -> subprocess.CompletedProcess[str]:
    found = {"PYTHONPATH": str(site), "OWN_DATA_MISTAKE": mistake, "COLUMNS": "80"}
    environment = {**os.environ, **found, "XDG_CACHE_HOME": str(site / "cache")}
    command = [sys.executable, "-m", "harness.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_mistake_is_refused_before_anything_is_written(site: Path, tmp_path: Path) -> None:
    sweep = ["--workload", "own-data", "--method", "sgd", "--models", "2", "--store", str(tmp_path / "store")]
    done = privbench(site, "labels from 1", "run", *sweep)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: workload own-data: labels run from 1 to 3, but classes = 3: count from 0: give y - 1 (in "
        "pool() and test())"
    ]
    assert not (tmp_path / "store").exists()
    good = privbench(site, "", "plan", *sweep, "--no-probe", "--json")
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["warnings"] == []


def test_check_reports_every_demand_and_exits_by_it(site: Path) -> None:
    good = privbench(site, "", "check", "workload", "own-data")
    assert good.returncode == 0, good.stdout + good.stderr
    assert good.stdout.splitlines()[-1] == "workload own-data holds (1 of 11 checks skipped)."
    bad = privbench(site, "NaN", "check", "workload", "own-data", "--json")
    assert bad.returncode == 1
    report: dict[str, Any] = {each["check"]: each for each in json.loads(bad.stdout)}
    assert report["records can be used"]["state"] == "failed"
    assert report["members and non-members"]["state"] == "skipped"


def test_check_knows_its_names(site: Path) -> None:
    done = privbench(site, "", "check", "workload", "own-dat")
    assert done.returncode == 2
    assert "did you mean 'own-data'?" in done.stderr
