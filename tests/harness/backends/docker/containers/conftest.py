"""A real Docker engine for the tests that need one (`make test-docker`); left out of all other runs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.backends.docker.daemon import STORE_LABEL, ask
from harness.backends.docker.docker import default_image
from harness.backends.machine.queue import submissions
from harness.spec import Json, Task

if TYPE_CHECKING:
    from tests.harness.conftest import Lab

ROOT = Path(__file__).parents[5]
UP_SECONDS = 1800
"""Enough to install the packages and to make the base image too."""
BASE, HOST = "privbench-base:latest", "privbench-host:latest"
BUILT = pytest.StashKey[str]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out unless `-m` names them."""
    if "docker" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("docker")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how long the image took."""
    if BUILT in config.stash:
        terminalreporter.write_line(config.stash[BUILT])


class Engine:
    """The development engine and ways to disturb it."""

    def call(self, verb: str) -> "subprocess.CompletedProcess[str]":
        """Run docker/dev-engine."""
        return subprocess.run(
            [str(ROOT / "docker" / "dev-engine"), verb],
            capture_output=True,
            text=True,
            timeout=UP_SECONDS,
            check=False,
        )

    def must(self, verb: str) -> None:
        """Run docker/dev-engine; it has to succeed."""
        done = self.call(verb)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def import_host(self) -> None:
        """Make an image whose tasks run this machine's own Python, mounted: quicker than a real one."""
        entry = json.dumps([sys.executable, "-m", "harness.job"])
        subprocess.run(
            ["docker", "build", "--quiet", "--tag", HOST, "-"],
            input=f"FROM {BASE}\nENTRYPOINT {entry}\n",
            text=True,
            capture_output=True,
            timeout=120,
            check=True,
        )


@contextmanager
def own_engine() -> Iterator[Engine]:
    """A temporary engine; RuntimeError with the reason if it cannot be started."""
    # Not pytest's folder: the path of a socket has 108 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="pb-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVBENCH_ENGINE", str(folder))
        patch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
        made = Engine()
        try:
            for verb in ("up", "base-image"):
                done = made.call(verb)
                if done.returncode:
                    raise RuntimeError(f"no Docker engine here: {done.stderr.strip()}")
            made.import_host()
            yield made
        finally:
            made.call("clean")
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine for the test session; skips with the reason if it cannot be started."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(own_engine())
        except RuntimeError as error:
            pytest.skip(str(error))
        yield made


@pytest.fixture(scope="session")
def image(engine: Engine, request: pytest.FixtureRequest) -> str:
    """The real image, built from this checkout without a registry."""
    done = run_privbench("image", "build", "--base", BASE, "--source", str(ROOT))
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    request.config.stash[BUILT] = done.stdout.splitlines()[-1]
    return default_image()


@pytest.fixture
def privbench() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """The command line."""
    return run_privbench


def run_privbench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=UP_SECONDS,
        check=False,
    )


class Boxes:
    """A store whose tasks run in containers."""

    def __init__(self, lab: "Lab", plugins: Path) -> None:
        self.lab, self.store = lab, lab.store
        python = Path(sys.executable)
        # The environment, the Python it borrows, this checkout and the plug-ins of the tests.
        folders = {sys.prefix, str(python.resolve().parents[1]), str(ROOT), str(plugins)}
        self.profile: dict[str, Any] = {
            "image": HOST,
            "memory": "2G",
            "read_only": sorted(folders),
            "environment": {"PYTHONPATH": os.pathsep.join([str(ROOT), str(plugins)])},
        }

    def send(
        self, tasks: Sequence[Task], slots: int = 1, timeout: float | None = None, **profile: Any
    ) -> int:
        """Enqueue tasks on the docker backend."""
        asked = self.profile | profile
        return self.lab.send(tasks, backend="docker", slots=slots, timeout_seconds=timeout, profile=asked)

    def finish(self, tasks: Sequence[Task]) -> list[str | None]:
        """Wait until all tasks have ended; return why tasks failed, None for those that are done."""
        self.lab.wait(lambda: not submissions(self.store), seconds=400)
        return [self.lab.result(task).reason for task in tasks]

    def containers(self) -> list[str]:
        """The containers of this store, whatever their state."""
        return ask("ps", "--all", "--quiet", "--filter", f"label={STORE_LABEL}={self.store.path}").split()

    def running(self, task: Task) -> str:
        """The container that runs a task, once it has done a step; the store has no other."""
        self.lab.wait(lambda: self.lab.stepping(task))
        (name,) = self.containers()
        return name

    def inspect(self, name: str) -> Json:
        """The engine's description of a container."""
        found: list[Json] = json.loads(ask("inspect", name))
        return found[0]

    def keepers(self) -> list[psutil.Process]:
        """The processes beside the containers of this store."""
        return self.lab.processes("harness.backends.docker.keeper")

    def message(self, task: Task) -> str:
        """The message of a failed task."""
        return str(self.lab.message(task))

    def close(self) -> None:
        """Let the supervisor end; neither it nor its containers may be left."""
        for supervisor in self.lab.supervisors():
            supervisor.terminate()
        self.lab.wait(lambda: not self.lab.processes())
        left = self.containers()
        if left:
            ask("rm", "--force", *left)
            raise AssertionError(f"{len(left)} containers were left behind")


@pytest.fixture
def boxes(lab: "Lab", engine: Engine, plugins: Path) -> Iterator[Boxes]:
    """A store for one test; at the end none of its containers may be left."""
    engine.must("up")
    plugins.chmod(0o755)  # pytest's folders are closed to other users
    made = Boxes(lab, plugins)
    yield made
    made.close()
