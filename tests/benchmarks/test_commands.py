"""What commands cost in CPU seconds, user and system; the bounds are for an idle machine, files in memory."""

import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.pairs import Estimate
from tests.harness.terminal import SWEEP

if TYPE_CHECKING:
    from tests.benchmarks.table import Table

RUNS = 5
BOUNDS = {
    ("--help",): 0.25,
    ("list", "methods"): 0.7,
    ("list", "workloads"): 0.7,
    ("list", "attacks"): 0.7,
    ("show", "method", "dp-sgd"): 0.7,
    ("show", "workload", "digits-mlp"): 0.7,
    ("status",): 0.7,
    ("query", "select label, accuracy from frontier"): 0.7,
    ("run", "--workload", "digits-mlp", "--method", "nothing"): 0.7,
    ("plan", "small.toml"): 1.5,
}
WORKER = 2.2
"""From its start to `ready`."""

pytestmark = pytest.mark.benchmark


def run(words: list[str], folder: Path) -> float:
    """CPU seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(words: list[str], folder: Path) -> tuple[Estimate, str]:
    """CPU seconds of several runs, and as a remark those of the import of torch at the same time."""
    pairs = [(run(words, folder), run(["-c", "import torch"], folder)) for _ in range(RUNS)]
    seconds, torch = (Estimate.of(each) for each in zip(*pairs, strict=True))
    return seconds, f"`import torch` {torch.median:.2f}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of a finished sweep."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "small.toml").write_text(SWEEP, encoding="utf-8")
    run(["-m", "harness.cli", "run", "small.toml"], folder)
    return folder


@pytest.mark.parametrize(("words", "bound"), BOUNDS.items(), ids=map(" ".join, BOUNDS))
def test_a_command_is_quick(words: tuple[str, ...], bound: float, finished: Path, table: "Table") -> None:
    seconds, beside = measure(["-m", "harness.cli", *words], finished)
    table.hold("commands, CPU seconds", f"`privbench {shlex.join(words)}`", seconds, bound, RUNS, beside)


def test_a_worker_starts_quickly(finished: Path, table: "Table") -> None:
    """Without keys on its standard input it ends when it is ready."""
    seconds, beside = measure(["-P", "-m", "harness.jobs", "privbench-store", "-"], finished)
    table.hold("commands, CPU seconds", "start of a worker", seconds, WORKER, RUNS, beside)
