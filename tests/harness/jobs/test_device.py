"""Preparing a process for its device, choosing the device, and its interface: waits, memory, failures."""

import gc
import io
import math
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import torch

import methods
from harness.jobs import cublas
from harness.jobs.bench.interleaving import Player, play, weigh
from harness.jobs.bench.timing import Laps, lap_table
from harness.jobs.device import ACCELERATORS, COMPILES, Host, accelerator, arithmetic, prepared
from harness.jobs.failures import failure, loses_device
from harness.jobs.loop import Stop, run_task
from harness.jobs.provenance import provenance
from harness.jobs.run import LOOK_EVERY, Interrupted, Run, read_values
from harness.jobs.train import step_table, summary
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from tests.harness.fake_card import FAKE, FakeCard, new_card
from workloads import devices
from workloads.devices import CPU, best_device, find_device
from workloads.errors import BenchError, DeviceError

GPU = torch.device("cuda", 0)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> type[FakeCard]:
    return new_card(monkeypatch)


# -- preparing ---------------------------------------------------------------------------------


LAUNCH = """
import os, runpy, sys

class Finder:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("CUBLAS_WORKSPACE_CONFIG"))
            raise SystemExit

sys.meta_path.insert(0, Finder)
runpy.run_module(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("module", ["harness.jobs", "harness.job"])
def test_a_job_sets_the_workspace_before_it_imports_torch(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(cublas.VARIABLE, raising=False)
    command = [sys.executable, "-c", LAUNCH, module]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ":4096:8\n"


@pytest.mark.parametrize(("given", "kept"), [(None, ":4096:8"), (":4096:8", ":4096:8"), (":16:8", ":16:8")])
def test_a_gpu_gets_a_deterministic_workspace(
    given: str | None, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(cublas.VARIABLE, raising=False)
    if given:
        monkeypatch.setenv(cublas.VARIABLE, given)
    with prepared(GPU, 1):
        assert arithmetic()["cublas_workspace"] == kept


def test_another_workspace_is_refused_on_a_gpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cublas.VARIABLE, ":0:0")
    with pytest.raises(BenchError, match=r"CUBLAS_WORKSPACE_CONFIG=:0:0.*:4096:8"), prepared(GPU, 1):
        pass
    with prepared(CPU, 1):
        pass


def settings() -> tuple[object, ...]:
    """The arithmetic settings of a process."""
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    return (*arithmetic().values(), fill, torch.get_num_threads())


def test_a_prepared_process_computes_in_order_and_in_ieee_precision_and_is_left_as_it_was() -> None:
    before, threads = settings(), torch.get_num_threads()
    with prepared(CPU, threads + 1):
        found = arithmetic()
        assert (found["deterministic"], found["fp32_convolution"], found["fp32_matmul"]) == (
            True,
            "ieee",
            "ieee",
        )
        assert torch.get_num_threads() == threads + 1
        assert not settings()[-2], "a write of every new tensor"
        # Both of torch's getters agree; mixing the two kinds of setters would make one of them fail.
        assert torch.backends.cudnn.conv.fp32_precision != "tf32"  # type: ignore[attr-defined]
        assert torch.backends.cudnn.allow_tf32 is False
    assert settings() == before


CHILD = """
import os, sys, torch
from harness.jobs.device import prepared
from workloads.devices import CPU
with prepared(CPU, 1):
    assert "torch._inductor" not in sys.modules
    import torch._inductor.config as compiler
    assert compiler.deterministic
assert not compiler.deterministic
with prepared(CPU, 1):
    assert compiler.deterministic
assert not compiler.deterministic
assert "TORCHINDUCTOR_DETERMINISTIC" not in os.environ
"""


@pytest.mark.slow
def test_a_compiler_is_deterministic_whenever_it_loads() -> None:
    fresh = {name: value for name, value in os.environ.items() if name != COMPILES}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=fresh, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_user_s_own_mode_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILES, "1")
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        with prepared(CPU, torch.get_num_threads()):
            assert torch.get_deterministic_debug_mode() == 2
        assert torch.get_deterministic_debug_mode() == 1
        assert os.environ[COMPILES] == "1"
    finally:
        torch.set_deterministic_debug_mode(before)


# -- the choice of a device --------------------------------------------------------------------


@pytest.fixture
def gpuless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which torch sees no GPU; the path of the driver's version file, which is absent."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv(devices.VARIABLE, raising=False)
    return tmp_path / "version"


def test_by_default_the_gpu_is_preferred_to_the_cpu(gpuless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert best_device() == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert best_device() == GPU, "with its number: generators and weights are compared with it"
    monkeypatch.setenv(devices.VARIABLE, "cpu")
    assert best_device() == CPU


NVRM = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32\nGCC 12.3.0\n"


@pytest.mark.parametrize(
    ("cuda", "driver", "visible", "found", "remedy"),
    [
        (None, None, None, "CUDA None, driver None", "install a torch built for CUDA"),
        ("13.0", None, None, "CUDA 13.0, driver None", "docker --gpus, apptainer --nv"),
        ("13.0", NVRM, None, "driver 535.129.03", "an older CUDA than 13.0"),
        ("13.0", NVRM, "", "CUDA_VISIBLE_DEVICES ''", "let CUDA_VISIBLE_DEVICES name a GPU"),
        ("13.0", NVRM, "2,3", "CUDA_VISIBLE_DEVICES '2,3'", "update the driver"),
    ],
)
def test_a_requested_gpu_that_is_missing_is_an_error_that_states_what_was_found(
    gpuless: Path,
    monkeypatch: pytest.MonkeyPatch,
    cuda: str | None,
    driver: str | None,
    visible: str | None,
    found: str,
    remedy: str,
) -> None:
    monkeypatch.setenv(devices.VARIABLE, "cuda")
    monkeypatch.setattr(torch.version, "cuda", cuda)
    if driver:
        gpuless.write_text(driver)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(DeviceError) as raised:
        best_device()
    assert raised.value.kind == "cuda"
    for words in (found, remedy, "is_available() False", "device_count 0", "PRIVBENCH_DEVICE=cpu"):
        assert words in str(raised.value)


def test_a_device_that_torch_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(devices.VARIABLE, "gpu")
    with pytest.raises(DeviceError) as raised:
        best_device()
    assert raised.value.kind == "gpu"
    with pytest.raises(DeviceError):
        accelerator(torch.device("xpu"))
    assert find_device("cpu") == CPU


# -- steps never wait --------------------------------------------------------------------------


def step_through(run: Run, total: int) -> list[int]:
    """Run empty steps with three parts; return the waits inside each step."""
    seen = []
    for _ in run.steps("train", total, {}):
        before = waits(run)
        for name in ("batch", "gradients", "batch"):
            with run.clock(name):
                pass
        run.observe(loss=torch.tensor(1.0), norm=2.0)
        seen.append(waits(run) - before)
    return seen


def waits(run: Run) -> int:
    made = ACCELERATORS[run.device.type]
    assert issubclass(made, FakeCard)
    return made.waits


@pytest.mark.parametrize(
    ("steps", "looks"), [(1, 0), (LOOK_EVERY - 1, 0), (LOOK_EVERY + 9, 1), (3 * LOOK_EVERY + 1, 3)]
)
def test_a_training_waits_at_looks_and_at_the_last_save_and_never_in_a_step(
    card: type[FakeCard], steps: int, looks: int
) -> None:
    run = Run("name", FAKE)
    assert step_through(run, steps) == [0] * steps
    run.finish()
    assert card.waits == looks + 1
    assert card.events <= LOOK_EVERY * 8, "events are used again"


def test_a_stopped_training_waits_once_more_for_its_checkpoint(card: type[FakeCard], tmp_path: Path) -> None:
    left = iter(range(LOOK_EVERY + 5, -1, -1))
    run = Run("name", FAKE, tmp_path, interval=1000.0, stop=lambda: next(left) == 0)
    with pytest.raises(Interrupted):
        step_through(run, 1000)
    assert card.waits == 2
    assert len(run.phases["train"].wall) == LOOK_EVERY + 6


def test_times_are_those_between_events_and_cpu_time_is_null(card: type[FakeCard]) -> None:
    run = Run("name", FAKE)
    step_through(run, LOOK_EVERY + 3)
    series = run.phases["train"]
    assert series.wall == [0.007] * (LOOK_EVERY + 3)
    assert series.clocks == {"batch": [0.002] * len(series.wall), "gradients": [0.001] * len(series.wall)}
    assert summary(series).cpu.p50 is None
    assert summary(series).wall.p50 == pytest.approx(0.007)
    table = pq.read_table(io.BytesIO(step_table(run.phases)))
    assert table["cpu_seconds"].null_count == table.num_rows == LOOK_EVERY + 3


def test_values_of_every_kind_are_read_exactly() -> None:
    values: list[torch.Tensor | float] = [
        1.5,
        torch.tensor(0.1),
        torch.tensor([0.1], dtype=torch.float64),
        torch.tensor(2**40),
        True,
    ]
    assert read_values(values) == [1.5, float(torch.tensor(0.1)), 0.1, float(2**40), 1.0]


def test_a_value_of_several_elements_is_refused() -> None:
    with pytest.raises(RuntimeError):
        read_values([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])])


# -- checkpoints know their card ---------------------------------------------------------------


def stop_after(steps: int) -> Callable[[], bool]:
    left = iter(range(steps - 1, -1, -1))
    return lambda: next(left) == 0


@pytest.mark.parametrize(("name", "begins"), [("Fake A100", 3), ("Fake H100", 0)])
def test_a_training_resumes_on_the_same_card_only(
    card: type[FakeCard], tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, begins: int
) -> None:
    with pytest.raises(Interrupted):
        step_through(Run("name", FAKE, tmp_path, stop=stop_after(3)), 8)
    card.name = name
    assert next(Run("name", FAKE, tmp_path).steps("train", 8, {})) == begins
    assert [record.name for record in caplog.records] == ["harness.jobs.run"] * (begins == 0)
    assert begins or "Fake A100" in caplog.text


def test_a_device_s_own_random_stream_is_put_back(card: type[FakeCard], tmp_path: Path) -> None:
    card.stream = torch.arange(16, dtype=torch.uint8)
    with pytest.raises(Interrupted):
        step_through(Run("name", FAKE, tmp_path, stop=stop_after(3)), 8)
    card.stream = torch.zeros(16, dtype=torch.uint8)
    next(Run("name", FAKE, tmp_path).steps("train", 8, {}))
    assert card.stream.tolist() == list(range(16))


# -- bench -------------------------------------------------------------------------------------


def test_a_turn_of_a_bench_waits_once(card: type[FakeCard]) -> None:
    players = [Player(str(i), lambda run: step_through(run, 5), FAKE, 1, seed=0) for i in range(2)]
    try:
        turns = play(players, warm_up=1, least=11, most=11, seconds=0.0, seed=0)
        assert card.waits == 2 * 12
    finally:
        for player in players:
            player.leave()
    assert {turn.lap.wall for turn in turns} == {0.007}
    assert {turn.lap.clocks["batch"][0] for turn in turns} == {0.002}
    figures = Laps([turn.lap for turn in turns]).figures("wall")
    assert (figures["median_wall_seconds"], figures["median_cpu_seconds"]) == (0.007, None)
    assert figures["clocks"]["batch"] == {"median_wall_seconds": 0.002, "median_cpu_seconds": None}
    table = pq.read_table(io.BytesIO(lap_table(turns, ["a", "b"])))
    assert table["cpu_seconds"].null_count == table["clock_batch_cpu"].null_count == table.num_rows == 22
    assert not any(math.isnan(each) for each in table["wall_seconds"].to_pylist())


@pytest.mark.slow
def test_memory_of_a_bench_holds_what_a_player_keeps_between_steps(card: type[FakeCard]) -> None:
    def train(arena: int, run: Run) -> None:
        for step in run.steps("train", 1000, {}):
            card.allocate(arena if step == 0 else 0)
            card.allocate(30)
            card.allocate(-30)

    arenas = (5, 200)
    players = [Player(str(each), lambda run, each=each: train(each, run), FAKE, 1, 0) for each in arenas]  # type: ignore[misc]
    try:
        play(players, warm_up=1, least=2, most=2, seconds=0.0, seed=0)
        found = [weigh(player, FAKE, 2, 3) for player in players]
    finally:
        for player in players:
            player.leave()
    assert found == [[(35, 205)] * 3, [(230, 205)] * 3]


# -- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason", "lost"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out_of_memory", True),
        (RuntimeError("CUDA error: out of memory"), "out_of_memory", True),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED in cublasCreate"),
            "out_of_memory",
            True,
        ),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED, workspace of 2 GB"), "out_of_memory", True),
        (RuntimeError("CUDA error: device-side assert triggered"), "error", True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "error", True),
        (RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable"), "killed", True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out_of_memory", False),
        (MemoryError(), "out_of_memory", False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "error", False),
        (ValueError("the label 'CUDA error' is unknown"), "error", False),
        (DeviceError("cuda", "torch sees none"), "killed", False),
    ],
)
def test_errors_of_a_device_have_their_reason_and_end_the_process(
    error: Exception, reason: str, lost: bool
) -> None:
    assert failure(error).reason == reason
    assert loses_device(error) is lost
    wrapped = BenchError("the model cannot be compiled")
    wrapped.__cause__ = error
    assert loses_device(wrapped) is lost


def test_a_failed_kernel_is_explained() -> None:
    message = failure(RuntimeError("CUDA error: device-side assert triggered")).message
    assert "out of range" in message
    assert "CUDA_LAUNCH_BLOCKING=1" in message
    assert "device-side assert triggered" in message


# -- provenance --------------------------------------------------------------------------------


def test_provenance_names_the_card_and_how_it_computes(card: type[FakeCard]) -> None:
    with prepared(FAKE, 1):
        here = provenance(FAKE)
    assert (here["device"], here["gpu_uuid"], here["threads"]) == ("Fake A100", "GPU-1", 1)
    assert (here["deterministic"], here["fp32_convolution"]) == (True, "ieee")
    assert provenance(None)["device"] is None


def test_a_cuda_card_is_described_as_torch_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(uuid="d5b8", total_memory=2**35, major=8, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    known = accelerator(GPU).identity()
    assert (known["gpu_uuid"], known["gpu_memory_bytes"], known["compute_capability"]) == (
        "d5b8",
        2**35,
        "8.0",
    )
    assert (known["cuda"], known["cuda_allocator"]) == ("13.0", "expandable_segments:True")


# -- memory after a task -----------------------------------------------------------------------


class Engine:
    """Held only by a reference cycle, like an engine by its hooks."""

    def __init__(self) -> None:
        self.hook = self


@pytest.mark.parametrize("n_train", [100, 10**6], ids=["done", "failed"])
def test_after_every_task_memory_is_given_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, n_train: int
) -> None:
    emptied = []

    class Emptied(Host):
        def empty_cache(self) -> None:
            emptied.append(self.device)

    monkeypatch.setitem(ACCELERATORS, "cpu", Emptied)
    store = Store.open(tmp_path / "store", create=True)
    sgd = Plugin("sgd", methods.family.get("sgd").version)
    task = Task("train", Cell(Plugin("digits-linear", "1"), n_train, sgd, {"steps": 2, "batch_size": 8}, 0))
    store.add(task)
    gc.disable()  # what is found is found on purpose
    try:
        gone = weakref.ref(Engine())
        run_task(store, task.key, Stop())
    finally:
        gc.enable()
    assert emptied == [CPU]
    assert gone() is None
