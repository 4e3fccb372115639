"""The guide's backend, installed as another package would be and used by the real command line."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("docs")]

GRID = '[[grid]]\nworkload = "digits-linear"\nmethod = "sgd"\nsteps = '
SHORT = f'name = "short"\nmodels = 2\nattacks = ["loss"]\n{GRID}5\n'
LONG = f'name = "long"\nmodels = 1\n{GRID}10_000_000\n'
GIVES_WAY = min(19, os.nice(0) + 7)
PATIENCE = 180.0
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def privbench(environment: dict[str, str], tmp_path: Path) -> Iterator[Call]:
    """`privbench WORDS` on a store of the test's own; no process of it is left."""

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "harness.cli", *words]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment | {"PRIVBENCH_STORE": str(tmp_path / "store")},
            capture_output=True,
            text=True,
            check=False,
        )

    (tmp_path / "at-once.toml").write_text('niceness = 7\n[environment]\nPRIVBENCH_NODE = "here"\n')
    (tmp_path / "short.toml").write_text(SHORT)
    (tmp_path / "long.toml").write_text(LONG)
    yield call
    for process in processes(tmp_path):
        process.kill()


def processes(folder: Path) -> list[psutil.Process]:
    """The jobs of the store in a folder."""
    return [
        each
        for each in psutil.process_iter(["cmdline"])
        if {str(folder / "store"), "harness.jobs"} <= {*(each.info["cmdline"] or ())}
    ]


def status(privbench: Call, sweep: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(privbench("status", sweep, "--json").stdout)["sweeps"][0]
    return found


def await_running(privbench: Call, sweep: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while not (found := status(privbench, sweep))["running"]:
        assert time.monotonic() < deadline, found
    return found


def test_it_is_listed_with_those_of_the_project(privbench: Call) -> None:
    rows = json.loads(privbench("list", "backends", "--json").stdout)
    assert {row["name"] for row in rows} >= {"at-once", "local"}
    assert {row["name"]: row["profile"] for row in rows}["at-once"]


def test_a_sweep_runs_on_it_and_is_shown_when_it_is_gone(
    privbench: Call, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = privbench("run", "short.toml", "--backend", "at-once", "--profile", "at-once.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    found = status(privbench, "short")
    assert (found["backend"], found["done"], found["queued"]) == ("at-once", found["tasks"], False)
    results = [json.loads(file.read_text()) for file in (tmp_path / "store" / "tasks").rglob("result.json")]
    places = {(each["provenance"]["job"], each["provenance"]["node"]) for each in results}
    assert places == {("short", "here")}
    monkeypatch.setitem(environment, "PYTHONPATH", environment["PYTHONPATH"].partition(os.pathsep)[2])
    assert status(privbench, "short")["done"] == found["tasks"]
    shown = privbench("status")
    assert (shown.returncode, "unknown backend 'at-once'" in shown.stdout) == (0, True)


def test_a_sweep_is_watched_cancelled_and_retried_as_it_was_sent(privbench: Call, tmp_path: Path) -> None:
    words = ["enqueue", "long.toml", "--backend", "at-once", "--profile", "at-once.toml"]
    sent = privbench(*words)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert await_running(privbench, "long")["queued"]
    (process,) = processes(tmp_path)
    assert process.nice() == GIVES_WAY
    assert f"long runs as process {process.pid}" in privbench("status").stdout
    again = privbench(*words)
    assert (again.returncode, "runs already" in again.stderr) == (2, True)
    assert privbench("cancel", "long").returncode == 0
    psutil.wait_procs([process], timeout=PATIENCE)
    found = status(privbench, "long")
    assert (found["queued"], {each["reason"] for each in found["failures"]}) == (False, {"cancelled"})
    assert privbench("retry", "long").returncode == 0
    (process,) = processes(tmp_path)
    assert process.nice() == GIVES_WAY, "the profile it was sent with was kept"
    await_running(privbench, "long")
    process.kill()
    psutil.wait_procs([process], timeout=PATIENCE)
    assert {each["reason"] for each in status(privbench, "long")["failures"]} == {"killed"}


def test_a_wrong_profile_is_refused_with_all_its_mistakes(privbench: Call, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('niceness = 40\nnicenes = 3\nenvironment = "A=b"\n')
    done = privbench("run", "short.toml", "--backend", "at-once", "--profile", "wrong.toml")
    assert done.returncode == 2
    for key in ("niceness = 40", "did you mean 'niceness'", "environment = 'A=b'"):
        assert key in done.stderr
    assert not (tmp_path / "store").exists()
    for words in (["--backend", "at-once"], []):
        assert privbench("doctor", "--profile", "wrong.toml", *words).returncode == 2


def test_unsupported_options_and_unknown_backends_are_refused(privbench: Call) -> None:
    late = privbench("run", "short.toml", "--backend", "at-once", "--timeout", "5")
    assert (late.returncode, "--timeout 5" in late.stderr) == (2, True)
    unknown = privbench("run", "short.toml", "--backend", "at-onec")
    assert (unknown.returncode, "at-once" in unknown.stderr) == (2, True)


def test_doctor_finds_whose_profile_a_file_is(privbench: Call, tmp_path: Path) -> None:
    (row,) = json.loads(privbench("doctor", "--profile", "at-once.toml", "--json").stdout)
    assert (row["what"], row["state"]) == ("nice", "good")
    (tmp_path / "anybody.toml").write_text("[environment]\nA = 'b'\n")
    unclear = privbench("doctor", "--profile", "anybody.toml")
    assert (unclear.returncode, "give --backend" in unclear.stderr) == (2, True)
