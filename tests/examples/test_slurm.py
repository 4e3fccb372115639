"""examples/slurm: the profile is one, and the sweep is sent, to stand-ins for the programs of a cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.backends.profile import read_as
from harness.backends.slurm.array_record import records
from harness.backends.slurm.profile import Profile
from harness.store import Store

FOLDER = Path(__file__).resolve().parents[2] / "examples/slurm"
CLUSTER = {
    "sbatch": "7",
    "squeue": "",
    "scontrol": "MaxArraySize = 1001\nMaxJobCount = 10000\nAccountingStorageType = (null)",
    "sinfo": "n1|64|gpu:4",
    "srun": "",
}
"""Programs of SLURM, and what they print."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that takes every job and starts none."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in CLUSTER.items():
        (programs / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


def test_the_profile_is_right() -> None:
    profile = read_as(Profile, FOLDER / "profile.toml")
    assert (profile.gpus, profile.for_attacks.gpus) == (1, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_the_sweep_is_sent_without_its_data(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    words = ["enqueue", str(FOLDER / "sweep.toml"), "--backend", "slurm"]
    words += ["--profile", str(FOLDER / "profile.toml"), "--store", str(tmp_path / "store")]
    command = [sys.executable, "-m", "harness.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    store = Store.open(tmp_path / "store")
    arrays = [[store.task(key) for pack in each.packs for key in pack] for each in records(store)]
    cells = {task.cell.key: task.cell.method.name for tasks in arrays for task in tasks}
    assert sorted(cells.values()) == [*["dp-sgd"] * 5, "selena", "sgd"]
    assert "7 cells of 16 models" in (FOLDER / "sweep.toml").read_text(encoding="utf-8")
    assert [{task.kind for task in tasks} for tasks in arrays] == [{"train"}, {"attack"}]
    assert len(arrays[0]) == 7 * 16
    scripts = [(store.path / "slurm" / f"{each.name}.sh").read_text() for each in records(store)]
    for script, partition, gpu in zip(scripts, ("gpu", "cpu"), (True, False), strict=True):
        assert f"#SBATCH --partition={partition}\n" in script
        assert ("#SBATCH --gres=gpu:1\n" in script) == gpu
