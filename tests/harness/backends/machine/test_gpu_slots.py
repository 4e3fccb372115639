"""The GPU of each worker: the supervisor with real processes that record their environment and wait."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from harness.backends.base import Settings
from harness.backends.gpus import placed
from harness.backends.machine import queue
from harness.backends.machine.supervisor import Supervisor
from harness.backends.machine.workers import Worker, slots
from harness.store import Store
from harness.store.files import dump_checked

CORES = len(os.sched_getaffinity(0))
NOTING = """
import json, os, sys, time
from pathlib import Path
folder = Path(sys.argv[1]).parent / "notes"
names = ("CUDA_VISIBLE_DEVICES", "PRIVBENCH_DEVICE", "CUBLAS_WORKSPACE_CONFIG")
print("ready", flush=True)
for line in sys.stdin:
    key = line.strip()
    (folder / f".{key}").write_text(json.dumps({name: os.environ.get(name) for name in names}))
    (folder / f".{key}").rename(folder / key)
    while not (folder / f"{key}.end").exists():
        time.sleep(0.01)
    print(key, "done", flush=True)
"""


class Noting(Worker):
    """A worker whose tasks record their environment and run until stopped."""

    def __init__(self, store: Store, settings: Settings, gpu: str | None) -> None:
        super().__init__(store, settings, gpu, (sys.executable, "-c", NOTING))


class Bench:
    """A supervisor in this process, and the records of its workers."""

    def __init__(self, store: Store) -> None:
        self.store, self.notes = store, store.path.parent / "notes"
        self.notes.mkdir()
        self.supervisor = Supervisor(store)
        self.count = 0

    def send(self, trainings: Sequence[str], attacks: Sequence[str] = (), **settings: object) -> None:
        """Queue tasks as Local does, attacks last, with the GPUs the environment allows now."""
        jobs = [{"tasks": [key], "needs": [], "gpu": True} for key in trainings]
        jobs += [{"tasks": [key], "needs": [], "gpu": False} for key in attacks]
        how = placed(Settings(**settings)).dump()  # type: ignore[arg-type]
        content = {"sweep": "sweep", "settings": how, "jobs": jobs}
        (self.store.queue / f"{self.count:020d}-x.json").write_bytes(dump_checked(content))
        self.count += 1

    def until(self, met: Callable[[], bool]) -> None:
        """Run the supervisor until a condition holds."""
        deadline = time.monotonic() + 60
        while not met():
            if time.monotonic() > deadline:
                raise AssertionError(f"running: {self.running()}")
            self.supervisor._read_queue()
            self.supervisor._dispatch()
            self.supervisor._listen()
            self.supervisor._finish_submissions()

    def running(self) -> dict[str, str | None]:
        """Task to the GPU of its worker."""
        return {worker.task: worker.gpu for worker in self.supervisor.workers if worker.task}

    def noted(self, key: str) -> dict[str, str | None]:
        """The environment of a task, which must have started."""
        self.until((self.notes / key).exists)
        content: dict[str, str | None] = json.loads((self.notes / key).read_text())
        return content

    def end(self, *keys: str) -> None:
        """Let tasks end."""
        for key in keys:
            (self.notes / f"{key}.end").touch()
        self.until(lambda: not {*keys} & self.running().keys())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(queue, "Worker", Noting)
    monkeypatch.delenv("PRIVBENCH_DEVICE", raising=False)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    made = Bench(Store.open(tmp_path / "store", create=True))
    yield made
    for worker in made.supervisor.workers:
        worker.process.kill()
        worker.end()


def test_every_training_has_a_card_of_its_own_and_an_attack_has_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.setenv("PATH", "/nowhere")
    bench.send(["t1", "t2", "t3"], ["a1", "a2"], threads=max(1, CORES))
    bench.until(lambda: len(bench.running()) == 3)
    bench.supervisor._dispatch()
    assert bench.running() == {"a1": None, "t1": "2", "t2": "3"}
    gpu = {"PRIVBENCH_DEVICE": "cuda", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    for key, card in (("t1", "2"), ("t2", "3")):
        assert bench.noted(key).items() >= {"CUDA_VISIBLE_DEVICES": card, **gpu}.items()
    attack = bench.noted("a1")
    assert (attack["CUDA_VISIBLE_DEVICES"], attack["PRIVBENCH_DEVICE"]) == ("", "cpu")
    bench.end("t2")
    bench.until(lambda: "t3" in bench.running())
    assert bench.noted("t3")["CUDA_VISIBLE_DEVICES"] == "3"
    assert "a2" not in bench.running(), "an attack waits for its like, not for a card"
    bench.end("a1")
    assert bench.noted("a2")["PRIVBENCH_DEVICE"] == "cpu"
    assert len(bench.supervisor.workers) == 3
    bench.end("t1", "t3", "a2")
    bench.until(lambda: not bench.supervisor.submissions)


def test_slots_that_share_are_spread_over_the_cards(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    monkeypatch.setenv("PATH", "/nowhere")
    keys = [f"t{number}" for number in range(6)]
    bench.send(keys[:2], slots=5, share_gpus=True)
    bench.until(lambda: len(bench.running()) == 2)
    assert {*bench.running().values()} == {"GPU-a", "GPU-b"}, "the least loaded first"
    bench.send(keys[2:], slots=5, share_gpus=True)
    bench.until(lambda: len(bench.running()) == 5)
    bench.supervisor._dispatch()
    assert sorted(Counter(bench.running().values()).values()) == [2, 3]


def test_an_exclusive_card_has_one_worker(bench: Bench) -> None:
    bench.send(["t1", "t2", "t3"], slots=3, gpus=["GPU-alone", "GPU-b", "GPU-b"])
    bench.until(lambda: len(bench.running()) == 3)
    assert Counter(bench.running().values()) == {"GPU-alone": 1, "GPU-b": 2}


def test_an_attack_does_not_wait_for_the_many_trainings_before_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    monkeypatch.setenv("PATH", "/nowhere")
    bench.send([f"t{number}" for number in range(200)], ["a1"])
    bench.until(lambda: bench.running() == {"t0": "GPU-a", "a1": None})


def test_a_card_in_use_by_one_sweep_is_not_given_to_another(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    bench.send(["t1"])
    bench.until(lambda: bench.running() == {"t1": "GPU-a"})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-c")
    bench.send(["t2", "t3"], timeout_seconds=1000.0)
    bench.until(lambda: "t2" in bench.running())
    bench.supervisor._dispatch()
    assert bench.running() == {"t1": "GPU-a", "t2": "GPU-c"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-d")
    bench.send(["t4"])
    bench.until(lambda: bench.running().get("t4") == "GPU-d")
    bench.end("t1")
    bench.until(lambda: bench.running() == {"t2": "GPU-c", "t3": "GPU-a", "t4": "GPU-d"})


def test_without_a_gpu_trainings_and_attacks_share_the_slots_in_their_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    bench.send(["t1", "t2"], ["a1"], slots=2)
    bench.until(lambda: len(bench.running()) == 2)
    bench.supervisor._dispatch()
    assert bench.running() == {"t1": None, "t2": None}
    bench.end("t1")
    bench.until(lambda: bench.running() == {"a1": None, "t2": None})
    assert len(bench.supervisor.workers) == 2
    assert bench.noted("a1")["PRIVBENCH_DEVICE"] == bench.noted("t2")["PRIVBENCH_DEVICE"] == "cpu"


def test_on_gpus_attacks_get_the_cores_that_trainings_leave() -> None:
    cpu, gpu = Settings(gpus=[]), Settings(gpus=["a"])
    assert (slots(cpu), slots(cpu, on_gpu=True)) == (CORES, 0)
    assert (slots(gpu), slots(gpu, on_gpu=True)) == (max(1, CORES - 1), 1)
    assert slots(Settings(gpus=["a"] * 2 * CORES)) == 1
    assert slots(Settings(slots=2, gpus=["a", "b", "c"]), on_gpu=True) == 2
