"""A store, plug-ins that worker processes find, and the cleanup of processes that a test leaves behind."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import psutil
import pytest
import torch

from harness.backends import family
from harness.backends.base import read_settings
from harness.backends.machine import queue as local
from harness.enqueue import enqueue
from harness.plan.plan import Plan
from harness.plan.sweep_file import Sweep
from harness.spec import Cell, Json, Plugin, Task
from harness.store import RERUN_REASONS, Store
from harness.store.result import Result

HERE = Path(__file__).parent
PATIENCE = 180.0
"""Seconds a test waits for what must come: generous, since the machine may be busy."""


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that, on PYTHONPATH, adds workload lab-data and method trial as another package would."""
    return install(tmp_path_factory.mktemp("plugins"))


def install(folder: Path) -> Path:
    """Make a folder hold the lab's plug-ins as an installed package would."""
    shutil.copy(HERE / "lab.py", folder / "privbench_lab.py")
    info = folder / "privbench_lab-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: privbench-lab\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[privbench.methods]\ntrial = privbench_lab:method\n"
        "[privbench.workloads]\nlab-data = privbench_lab:workload\n"
    )
    return folder


@pytest.fixture
def shadowing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with packages of our names in it whose import fails."""
    folder = tmp_path / "shadowing"
    for name in ("harness", "methods", "workloads", "db", "privbench"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ImportError('the {name} of the current folder')")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def lab_module() -> ModuleType:
    """tests/harness/lab.py for use in this process."""
    spec = importlib.util.spec_from_file_location("lab", HERE / "lab.py")
    if spec is None or spec.loader is None:
        raise ImportError("tests/harness/lab.py is missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules["lab"] = module
    torch.set_num_threads(1)  # two test processes on two cores must not fight
    spec.loader.exec_module(module)
    return module


class Lab:
    """One store, and the actions of a test on it."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path, create=True)

    def task(self, index: int = 0, seed: int = 0, **params: Any) -> Task:
        """A training of the method trial on lab-data."""
        complete = {"steps": 12, "pause": 0.0, "trouble": "", "at": 3} | params
        cell = Cell(Plugin("lab-data", "1"), 30, Plugin("trial", "1"), complete, seed)
        return Task("train", cell, index=index)

    def attack(self, training: Task, models: int = 2) -> Task:
        """The loss attack on a training's cell."""
        return Task("attack", training.cell, models=models, attack=Plugin("loss", "1"))

    def added(self, *tasks: Task) -> list[str]:
        """Add tasks to the store; return their keys."""
        for task in tasks:
            self.store.add(task)
        return [task.key for task in tasks]

    def job(self, *keys: str, errors: IO[str] | None = None) -> "subprocess.Popen[str]":
        """Start `python -m harness.jobs`."""
        return subprocess.Popen(
            [sys.executable, "-m", "harness.jobs", str(self.store.path), *keys],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors or subprocess.PIPE,
            text=True,
        )

    def send(
        self, tasks: Sequence[Task], sweep: str = "sweep", backend: str = "local", **settings: Any
    ) -> int:
        """Enqueue the tasks on a backend as `privbench enqueue` does after planning."""
        results = {task.key: self.store.result(task.key) for task in tasks}
        done = frozenset(key for key, each in results.items() if each and each.done)
        failed = {
            key: each
            for key, each in results.items()
            if each and not each.done and each.reason not in RERUN_REASONS
        }
        cells = {task.cell.key: task.cell for task in tasks}
        asked = Sweep(sweep, 2, 0, (), ())
        plan = Plan(asked, tuple(cells.values()), tuple(tasks), done, failed)
        return enqueue(plan, self.store, backend, read_settings(settings, family.get(backend).Profile))

    def result(self, task: Task) -> Result:
        """The result of a task that must have one."""
        result = self.store.result(task.key)
        if result is None:
            raise AssertionError(f"no result in {sorted(self.store.folder(task.key).iterdir())}")
        return result

    def message(self, task: Task) -> str:
        """The message of a failed task."""
        return self.result(task).message or ""

    def rows(self, tasks: Sequence[Task]) -> list[tuple[Any, ...]]:
        """What must be equal in two runs of the same tasks: everything but times and hosts."""
        rows = []
        for task in tasks:
            result = self.result(task)
            files = {name: each.sha256 for name, each in result.artefacts.items() if name != "steps"}
            kept = [result.figures.get(name) for name in ("metrics", "guarantee", "stats")]
            rows.append((task.key, [result.status, result.reason, *kept], files))
        return rows

    def beat(self, task: Task) -> Json | None:
        """A task's heartbeat."""
        try:
            beat: Json = json.loads((self.store.folder(task.key) / "heartbeat").read_text())
        except (OSError, ValueError):
            return None
        return beat

    def stepping(self, task: Task) -> bool:
        """Whether a task is running and has done a step."""
        beat = self.beat(task)
        return beat is not None and beat["done"] > 0

    def processes(self, of: str = "harness.") -> list[psutil.Process]:
        """Every running process with this store and `of` on its command line."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = process.info["cmdline"] or []
            works = str(self.store.path) in line and any(of in part for part in line)
            if works and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def supervisors(self) -> list[psutil.Process]:
        return self.processes("harness.backends.machine.supervisor")

    def workers(self) -> list[psutil.Process]:
        return self.processes("harness.jobs")

    @staticmethod
    def wait(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
        """Until the condition holds; AssertionError if it takes too long."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s")
            time.sleep(0.02)

    def wait_for(self, *tasks: Task) -> None:
        """Until every task has a result."""
        self.wait(lambda: all(self.store.result(task.key) for task in tasks))

    def end_all(self) -> None:
        """Leave no process of this store behind."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and (left := self.processes()):
            for process in left:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.05)
        for child in local.started:
            child.wait()
        local.started.clear()


@contextmanager
def opened(path: Path, plugins: Path) -> Iterator[Lab]:
    """A new store; processes started meanwhile find the plug-ins and are ended with it."""
    before = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(plugins), before])))
        patch.setenv("OMP_NUM_THREADS", "1")
        lab = Lab(path)
        try:
            yield lab
        finally:
            lab.end_all()


@pytest.fixture
def lab(tmp_path: Path, plugins: Path) -> Iterator[Lab]:
    """A store for one test."""
    with opened(tmp_path / "store", plugins) as lab:
        yield lab


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory, plugins: Path) -> Iterator[Lab]:
    """One store for the tests of a module, so that its workers import torch once."""
    with opened(tmp_path_factory.mktemp("shared") / "store", plugins) as lab:
        yield lab


@pytest.fixture
def mount_small() -> Iterator[Callable[[Path, str], None]]:
    """Mount an empty file system of a size, e.g. 256k, on a folder; skip the test if that is forbidden."""
    mounted: list[Path] = []

    def mount(folder: Path, size: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no mount command")
        if done.returncode:
            pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def peaceful(tmp_path: Path, plugins: Path) -> Iterator[Lab]:
    """A second store, for tests that disturb the first."""
    with opened(tmp_path / "peace", plugins) as lab:
        yield lab
