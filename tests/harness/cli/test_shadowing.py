"""A user's folders never shadow ours: the program works beside a user's own `methods/` and the like."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("privbench")


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM.exists(), reason="the console script is not installed")
def test_a_sweep_runs_in_a_folder_with_packages_of_our_names(shadowing: Path) -> None:
    options = ["--workload", "digits-linear", "--method", "sgd", "--models", "3", "--set", "steps=20"]
    command = [str(PROGRAM), "run", *options, "--attack", "loss", "--slots", "1"]
    done = subprocess.run(command, cwd=shadowing, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (shadowing / "privbench-store" / "privbench.duckdb").exists()
