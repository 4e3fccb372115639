"""A real SLURM cluster for the tests that need one (`make test-cluster`); left out of all other runs."""

import getpass
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.backends.slurm.cluster import queue
from harness.backends.slurm.slurm import Slurm
from harness.spec import Task
from harness.store import Store

if TYPE_CHECKING:
    from tests.harness.conftest import Lab

SCRIPT = Path(__file__).parents[5] / "slurm" / "dev-cluster"
UP_SECONDS = 300
"""Enough to install the packages too."""
PATIENCE = 1800.0
"""Seconds for a sweep to end: it ends sooner, but the machine may be busy."""
ARRAY = 4
"""The cluster's MaxArraySize: small, so that sweeps of a test need several arrays."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `-m` does not name: the cluster, and the benchmarks on it."""
    asked = config.getoption("markexpr")
    unasked = [name for name in ("cluster", "benchmark") if name not in asked]
    here = [item for item in items if item.get_closest_marker("cluster")]
    left_out = [item for item in here if any(item.get_closest_marker(name) for name in unasked)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


class Cluster:
    """The development cluster and ways to disturb it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run slurm/dev-cluster."""
        return subprocess.run(
            [str(SCRIPT), *arguments], capture_output=True, text=True, timeout=UP_SECONDS, check=False
        )

    def up(self) -> None:
        """Start what does not run."""
        done = self.call("up")
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def ask(self, *command: str) -> str:
        """The output of a SLURM command that must succeed."""
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    def jobs(self, store: Store) -> list[str]:
        """The states of all jobs of a store's records that SLURM lists."""
        names = {file.stem for file in (store.path / "slurm").glob("*.sh")}
        return [info.state for info in queue() or [] if info.name in names]


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """A temporary cluster; RuntimeError with the reason if it cannot be started."""
    # Not pytest's folder: the path of a socket has 108 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="pb-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVBENCH_CLUSTER", str(folder))
        patch.setenv("PRIVBENCH_CLUSTER_ARRAY", str(ARRAY))
        patch.setenv("SLURM_CONF", str(folder / "etc" / "slurm.conf"))
        made = Cluster(folder)
        try:
            started = made.call("up")
            if started.returncode:
                raise RuntimeError(f"no SLURM cluster here: {started.stderr.strip()}")
            yield made
        finally:
            made.call("clean")
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster for the test session; skips with the reason if it cannot be started."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(own_cluster())
        except RuntimeError as error:
            pytest.skip(str(error))
        yield made


class Sweeper:
    """A store whose tasks go to the cluster."""

    def __init__(self, lab: "Lab", cluster: Cluster) -> None:
        self.lab, self.cluster, self.store = lab, cluster, lab.store
        self.backend = Slurm()

    def send(
        self, tasks: Sequence[Task], sweep: str = "sweep", timeout: float | None = None, **profile: Any
    ) -> int:
        """Enqueue tasks on the cluster; two jobs at a time are enough for two cores."""
        asked = {"array_parallelism": 2, "throttle_seconds": 0.0, "signal_seconds": 60} | profile
        return self.lab.send(tasks, sweep, backend="slurm", timeout_seconds=timeout, profile=asked)

    def finish(self, tasks: Sequence[Task], sweep: str = "sweep") -> None:
        """Wait until SLURM has no job of the sweep; every task has a result then."""
        self.lab.wait(lambda: not self.backend.attend(self.store, sweep), seconds=PATIENCE)
        for task in tasks:
            self.lab.result(task)

    def reasons(self, tasks: Sequence[Task]) -> list[str | None]:
        """Why tasks failed; None for those that are done."""
        return [self.lab.result(task).reason for task in tasks]

    def runs(self, task: Task) -> int:
        """The number of starts of a task."""
        log = self.store.folder(task.key) / "log.txt"
        return sum(line.startswith("--- ") for line in log.read_text().splitlines()) if log.exists() else 0

    def running(self, task: Task) -> int:
        """The process that runs a task, once it has done a step."""
        self.lab.wait(lambda: self.lab.stepping(task))
        info = self.lab.beat(task)
        if info is None:
            raise AssertionError("the task ended before it could be disturbed")
        return int(info["pid"])

    def elements(self) -> list[psutil.Process]:
        """The processes of the elements of this store's arrays."""
        return self.lab.processes("harness.backends.slurm.element")


@pytest.fixture
def whole(cluster: Cluster, lab: "Lab") -> Iterator[Cluster]:
    """The cluster with all its nodes and without a job, before and after the test."""
    cluster.up()
    try:
        yield cluster
    finally:
        cluster.up()
        cluster.ask("scancel", "--user", getpass.getuser())
        lab.wait(lambda: not cluster.ask("squeue", "-h"))


@pytest.fixture
def sweeper(lab: "Lab", whole: Cluster) -> Sweeper:
    """A store for one test, on the whole cluster."""
    return Sweeper(lab, whole)
