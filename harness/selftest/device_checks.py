"""The checks of a device, each with the figures it measured."""

import gc
import hashlib
import math
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import conv2d

import methods
import workloads
from harness.jobs.device import accelerator, arithmetic, prepare
from harness.jobs.failures import failure
from harness.jobs.loop import free_memory
from harness.jobs.setup import per_example_loss
from harness.plan.declarations import named
from harness.selftest.numbered import NAMES
from harness.selftest.short_training import STEPS, distance, equal, plan_private, plan_task, train_briefly
from methods.base import Role
from methods.gradients import EngineName, make_engine
from methods.mechanisms.noise import SeededNoise
from workloads.devices import CPU
from workloads.errors import SpecError

WORKLOAD, PICTURES = "digits-mlp", "shape-lenet"
ENGINES: tuple[EngineName, ...] = ("bookkeeping", "opacus", "opacus-ghost")
WAITS = 0
"""Allowed synchronisations per step of a baseline."""
ROUNDING = 1e-5
"""Relative error of IEEE single precision in a sum of a thousand products; TF32 is a hundred times above."""
ENGINE_ROUNDING = 1e-4
TRAINING_ROUNDING = 1e-3
DRAWN = 1_000_000
SIGMAS = 5.0
SLACK_BYTES = 2**20
TOO_LARGE = 2**46
"""More bytes than any card has."""

Figures = dict[str, Any]
State = Literal["passed", "failed", "skipped"]


class Skipped(Exception):
    """The check does not apply; the message states why."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    number: int
    name: str
    state: State
    seconds: float
    message: str | None = None
    figures: Figures = field(default_factory=dict)
    traceback: str | None = None


@dataclass(frozen=True)
class Bench:
    """The input of checks."""

    device: torch.device
    again: Callable[[], str]
    """Trains `reference` in a new process on the same device and returns the hash of its weights."""
    waits: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """By kind of device: a context manager that yields a list of the synchronisations in it."""


@contextmanager
def heard_by_cuda() -> Iterator[list[str]]:
    """Record the lines that synchronise with a GPU; torch reports copies and reads, not events."""
    heard: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield heard
        finally:
            torch.cuda.set_sync_debug_mode("default")
            heard += [f"{each.filename}:{each.lineno}" for each in caught if "synchroni" in str(each.message)]


LISTENERS: dict[str, Callable[[], Any]] = {"cuda": heard_by_cuda}


def require(holds: bool, what: str) -> None:
    """Fail the check unless the condition holds."""
    if not holds:
        raise AssertionError(what)


# -- the checks --------------------------------------------------------------------------------------


def inventory(bench: Bench) -> Figures:
    """Versions and card, and a matrix product with deterministic algorithms."""
    found: Figures = {"torch": torch.__version__, "device": accelerator(bench.device).name}
    found |= accelerator(bench.device).identity()
    if bench.device.type == "cuda":
        kinds = torch.cuda.get_arch_list()
        major, minor = torch.cuda.get_device_capability(bench.device)
        newest = max(int(kind.split("_")[1].rstrip("af")) for kind in kinds if kind.startswith("sm_"))
        free, whole = torch.cuda.mem_get_info(bench.device)
        found |= {"compiled_for": kinds, "free_bytes": free, "total_bytes": whole}
        runs = any(kind.startswith(f"sm_{major}") for kind in kinds) or 10 * major + minor > newest
        require(runs, f"torch was compiled for {', '.join(kinds)}, but the card is sm_{major}{minor}")
    square = torch.ones(1024, 1024, device=bench.device)
    require(float((square @ square)[0, 0]) == 1024.0, "a matrix product is wrong")
    return found


def precision(bench: Bench) -> Figures:
    """Compare products and convolutions with double precision on the CPU: IEEE single, not TF32."""
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(512, 1024, generator=random) for _ in range(2))
    x, w = torch.randn(8, 32, 16, 16, generator=random), torch.randn(32, 32, 3, 3, generator=random)
    product = (a.to(bench.device) @ b.to(bench.device).T).cpu()
    folded = conv2d(x.to(bench.device), w.to(bench.device)).cpu()
    errors = {
        "matmul_error": distance([product], [a.double() @ b.double().T]),
        "convolution_error": distance([folded], [conv2d(x.double(), w.double())]),
    }
    for name, error in errors.items():
        require(error < ROUNDING, f"{name} {error:.1e}, allowed {ROUNDING:g}: is TF32 off?")
    require(torch.are_deterministic_algorithms_enabled(), "deterministic algorithms are off")
    return {**errors, **arithmetic()}


def every_method(bench: Bench) -> Figures:
    """Train every method for some steps on tabular data and on images; list rejected pairs with reasons."""
    trained, refused, broken = [], {}, {}
    for name in methods.family.names():
        for workload in (WORKLOAD, PICTURES):
            pair = f"{name} on {workload}"
            try:
                train_briefly(plan_task(workload, name), bench.device, STEPS)
                trained.append(pair)
            except SpecError as error:
                refused[pair] = str(error)
            except Exception as error:  # noqa: BLE001 - one method's failure must not hide another's
                broken[pair] = f"{type(error).__name__}: {error}"
            free_memory(bench.device)
    require(not broken, "; ".join(f"{pair}: {why}" for pair, why in broken.items()))
    return {"trained": trained, "refused": refused}


def engines(bench: Bench) -> Figures:
    """Compare clipped sums and norms of every engine with the CPU; no gradient may exceed the clip."""
    figures: Figures = {}
    for workload in (WORKLOAD, PICTURES):
        member = workloads.family.get(workload)
        records = member.pool().take(torch.arange(32))
        for name in ENGINES:
            found = [
                _clipped(member.model(0), records.x, records.y, name, each) for each in (CPU, bench.device)
            ]
            (sums, norms, _), (others, lengths, longest) = found
            clip = float(norms.median())
            error = max(distance(others, sums), distance([lengths], [norms]))
            figures[f"{name} on {workload}"] = {"error": error, "longest": longest}
            require(error < ENGINE_ROUNDING, f"{name} on {workload} differs from the CPU by {error:.1e}")
            require(longest <= 1 + 1e-6, f"{name} on {workload}: a gradient of {longest:.8f} times the clip")
            require(clip > 0, "gradients of zero")
    return figures


def _clipped(
    model: torch.nn.Module, x: Tensor, y: Tensor, name: EngineName, device: torch.device
) -> tuple[list[Tensor], Tensor, float]:
    """Sums clipped at the median norm, norms, and the largest clipped norm relative to the clip."""
    engine = make_engine(model.to(device), per_example_loss, name)
    x, y = x.to(device), y.to(device)
    norms = engine.norms(x, y)
    clip = float(norms.median())
    sums = [each.cpu() for each in engine.clipped_sum(x, y, clip).sums]
    engine.release()
    formed = make_engine(model, per_example_loss, "opacus" if name == "opacus-ghost" else name)
    gradients = formed.per_example(x, y)
    lengths = torch.stack([each.double().flatten(1).square().sum(1) for each in gradients]).sum(0).sqrt()
    factors = (clip / (norms.double() + 1e-6)).clamp_max(1.0)
    formed.release()
    return sums, norms.cpu(), float((factors * lengths).max() / clip)


def against_the_cpu(bench: Bench) -> Figures:
    """Compare a training without noise with the CPU, and check the moments of the noise."""
    task = plan_private(WORKLOAD, epsilon=math.inf, steps=STEPS)
    whole = [train_briefly(task, each).whole for each in (CPU, bench.device)]
    error = distance(whole[1], whole[0])
    require(error < TRAINING_ROUNDING, f"weights differ from the CPU's by {error:.1e} after {STEPS} steps")
    generator = torch.Generator(bench.device).manual_seed(0)
    like = [torch.zeros(DRAWN, device=bench.device)]
    drawn = SeededNoise(like, 3.0, generator).start(like, 1.0)[0].double().cpu() / 3.0
    mean = float(drawn.mean()) * math.sqrt(DRAWN)
    spread = float(drawn.var() - 1) * math.sqrt(DRAWN / 2)
    require(abs(mean) < SIGMAS, f"the mean of {DRAWN:,} normal numbers is {mean:.1f} standard errors off")
    require(abs(spread) < SIGMAS, f"the variance of the noise is {spread:.1f} standard errors off")
    return {"training_error": error, "noise_mean_in_se": mean, "noise_variance_in_se": spread}


def reference(device: torch.device) -> str:
    """The hash of a private training's weights."""
    weights = train_briefly(plan_private(WORKLOAD, steps=STEPS), device).whole
    return hashlib.sha256(b"".join(each.contiguous().numpy().tobytes() for each in weights)).hexdigest()


def determinism(bench: Bench) -> Figures:
    """Train the same task twice in this process and once in another: the weights must be identical."""
    hashes = [reference(bench.device), reference(bench.device), bench.again()]
    require(len(set(hashes)) == 1, f"the same training gave {len(set(hashes))} different models")
    return {"weights": hashes[0]}


def resume(bench: Bench) -> Figures:
    """A resumed training must equal an uninterrupted one; a checkpoint of the CPU is not resumed."""
    task = plan_private(WORKLOAD, steps=STEPS)
    whole = train_briefly(task, bench.device).whole
    with tempfile.TemporaryDirectory() as folder:
        train_briefly(task, bench.device, 3, Path(folder))
        again = train_briefly(task, bench.device, folder=Path(folder)).whole
    require(equal(again, whole), "a resumed training differs from the whole one")
    if bench.device.type == CPU.type:
        return {"resumed": True}
    with tempfile.TemporaryDirectory() as folder:
        train_briefly(task, CPU, 3, Path(folder))
        restarted = train_briefly(task, bench.device, folder=Path(folder)).whole
    require(equal(restarted, whole), "a checkpoint of the CPU was resumed")
    return {"resumed": True, "checkpoint_of_the_cpu": "restarted"}


def waits(bench: Bench) -> Figures:
    """Synchronisations per step, from the difference of a longer and a shorter training."""
    listener = bench.waits.get(bench.device.type)
    if listener is None:
        raise Skipped(f"synchronisations with {bench.device.type} cannot be recorded")
    found: Figures = {}
    for name in map(named, get_args(Role)):
        lines: list[list[str]] = []
        for steps in (STEPS, 3 * STEPS):
            task = plan_task(WORKLOAD, name, steps=steps)
            with listener() as heard:
                train_briefly(task, bench.device)
            lines.append([str(each) for each in heard])
        per_step = (len(lines[1]) - len(lines[0])) / (2 * STEPS)
        found[name] = per_step
        where = ", ".join(sorted(set(lines[1])))
        require(
            per_step <= WAITS, f"a step of {name} synchronises {per_step:g} times, allowed {WAITS}: {where}"
        )
    return found


def timing(bench: Bench) -> Figures:
    """Step times must be complete and positive, and their sum at most the wall time."""
    began = time.perf_counter()
    run = train_briefly(plan_private(WORKLOAD, steps=200), bench.device).run
    wall = time.perf_counter() - began
    (series,) = run.phases.values()
    spent = math.fsum(series.wall)
    require(len(series.wall) == 200 and min(series.wall) > 0, "steps without a time")
    require(spent <= wall, f"steps took {spent:.3f} s in sum, the wall clock {wall:.3f} s")
    return {"steps_seconds": spent, "wall_seconds": wall}


def memory(bench: Bench) -> Figures:
    """A task must release its memory, and the next one have the same peak."""
    device = accelerator(bench.device)
    if device.host:
        raise Skipped("on the CPU only the memory of the whole process is known")
    task, peaks = plan_private(PICTURES, steps=STEPS), []
    free_memory(bench.device)
    before = device.memory()
    for _ in range(2):
        device.reset_peak_memory()
        train_briefly(task, bench.device)
        peaks.append(device.peak_memory() - before)
        free_memory(bench.device)
    left = device.memory() - before
    weights = sum(
        each.numel() * each.element_size() for each in workloads.family.get(PICTURES).model(0).parameters()
    )
    require(abs(left) <= SLACK_BYTES, f"{left:,} bytes are not released after a task")
    require(abs(peaks[1] - peaks[0]) <= SLACK_BYTES, f"peaks of two equal tasks: {peaks}")
    require(peaks[0] > weights, f"a peak of {peaks[0]:,} bytes below the weights' {weights:,}")
    return {"peak_bytes": peaks[0], "left_bytes": left, "weights_bytes": weights}


def exhaustion(bench: Bench) -> Figures:
    """An allocation that is too large must fail as out of memory and not affect the next training."""
    if accelerator(bench.device).host:
        raise Skipped("the CPU's memory is shared with other processes")
    whole = reference(bench.device)
    try:
        torch.empty(TOO_LARGE, dtype=torch.uint8, device=bench.device)
    except Exception as error:  # noqa: BLE001 - its type is what is checked
        reason, message = failure(error).reason, str(error)
    else:
        raise AssertionError(f"{TOO_LARGE:,} bytes could be allocated")
    gc.collect()
    free_memory(bench.device)
    require(reason == "out_of_memory", f"reported as {reason!r}: {message}")
    require(reference(bench.device) == whole, "the next training differs")
    return {"reason": reason}


CHECKS: dict[int, Callable[[Bench], Figures]] = {
    1: inventory,
    2: precision,
    3: every_method,
    4: engines,
    5: against_the_cpu,
    6: determinism,
    7: resume,
    8: waits,
    9: timing,
    10: memory,
    11: exhaustion,
}
"""By number; the twelfth, all cards at once, needs several processes: see cards.py."""


def perform(number: int, bench: Bench) -> Finding:
    """Run one check; any exception becomes a failed finding."""
    name, check = NAMES[number], CHECKS[number]
    began = time.perf_counter()

    def found(state: State, **rest: Any) -> Finding:
        return Finding(number, name, state, time.perf_counter() - began, **rest)

    try:
        prepare(bench.device, torch.get_num_threads())
        return found("passed", figures=check(bench))
    except Skipped as reason:
        return found("skipped", message=str(reason))
    except Exception as error:  # noqa: BLE001 - a failed check is a finding
        trace = "".join(traceback.format_exception(error))
        return found("failed", message=str(error) or type(error).__name__, traceback=trace)
