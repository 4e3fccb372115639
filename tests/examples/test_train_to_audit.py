"""examples/train_to_audit.py, run as a script and by the command."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples/train_to_audit.py"


@pytest.mark.slow
def test_it_runs_as_a_script_and_by_the_command(tmp_path: Path) -> None:
    """Both are one audit: the second trains nothing."""
    store = str(tmp_path / "store")
    words = [sys.executable, str(SCRIPT), store, "2"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "of 100 members" in done.stdout.lower() and "epsilon is at least" in done.stdout
    assert (tmp_path / "audit/audit.json").is_file()
    command = [sys.executable, "-P", "-m", "harness.cli", "audit", str(SCRIPT), "--store", store]
    command += ["--models", "2", "--canaries", "100", "--out", str(tmp_path / "again")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ", 0 to run" in done.stdout
