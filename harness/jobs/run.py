"""The object a method trains through: steps, clocks, checkpoints, randomness, progress."""

import hashlib
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from dp_accounting import DpEvent
from torch import Tensor

from harness.accounting import Allotment, Filter
from harness.jobs.checkpoint import check_state, put_back, read_checkpoint, state_of, write_checkpoint
from harness.jobs.clock import PeakMemory, Stopwatch, stopwatch
from methods.base import Budget, State
from workloads.errors import Diverged

CHECKPOINT_SECONDS = 30.0
LOOK_EVERY = 64
"""Values observed between two looks at them: a look waits for the device."""
TAKEN = ("phase", "step", "wall_seconds", "cpu_seconds")
"""Columns of the step table that no observed value may be called."""


class Interrupted(BaseException):
    """The run was asked to stop and has saved its state. Not an Exception: no method may swallow it."""


@dataclass
class Series:
    """What was measured in one phase, a value per step."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    clocks: dict[str, list[float]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    resting_memory_bytes: int = 0
    peak_memory_bytes: int = 0

    def column(self, columns: dict[str, list[float]], name: str) -> list[float]:
        """A column of `clocks` or `values`, filled with NaN for the steps before it first appeared."""
        column = columns.setdefault(name, [])
        column.extend([math.nan] * (len(self.wall) - len(column)))
        return column


class Clock:
    """Adds the seconds between entering and leaving to a step's clocks.

    A class with slots and not a generator: it costs a third, and a step may enter several.
    """

    __slots__ = ("clocks", "mark", "name", "stopwatch")

    def __init__(self, stopwatch: Stopwatch, clocks: dict[str, float], name: str) -> None:
        self.stopwatch, self.clocks, self.name = stopwatch, clocks, name
        self.mark: object = None

    def __enter__(self) -> None:
        self.mark = self.stopwatch.start()

    def __exit__(self, *error: object) -> None:
        seconds = self.stopwatch.seconds(self.mark)
        self.clocks[self.name] = self.clocks.get(self.name, 0.0) + seconds


class Run:
    """One training, interrupted or not: implements methods.base.Run.

    Args:
        name: What the random streams are derived from; the task's key.
        device: Where tensors live.
        folder: Where checkpoints go; None keeps none.
        interval: Seconds between checkpoints.
        stop: Asked after every step; True saves the state and raises Interrupted.
    """

    def __init__(
        self,
        name: str,
        device: torch.device,
        folder: Path | None = None,
        interval: float = CHECKPOINT_SECONDS,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name, self.folder, self.interval, self.stop = name, folder, interval, stop
        self._device = device
        self._stopwatch = stopwatch(device)
        self._generators: dict[str, torch.Generator] = {}
        self._unclaimed: dict[str, Tensor] = {}
        """States of streams from a checkpoint that nobody has asked for yet: on which device is not known."""
        self._series = Series()
        self._unseen: list[tuple[int, str, Tensor | float]] = []
        self._clocks: dict[str, float] = {}
        self._values: dict[str, Tensor | float] = {}
        self.phases: dict[str, Series] = {}
        self.position = ("", 0, 0)
        """(phase, steps done, total): what a heartbeat tells."""
        # Layers that draw for themselves (dropout) use torch's own stream: seeded here, checkpointed below.
        torch.manual_seed(self.seed("torch"))

    @property
    def device(self) -> torch.device:
        """Where tensors should live."""
        return self._device

    def seed(self, name: str) -> int:
        """A 63-bit seed that depends on the task and the name alone."""
        digest = hashlib.sha256(f"{self.name}/{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def generator(self, name: str, device: torch.device | None = None) -> torch.Generator:
        """The named random stream of this task, on the run's device or on another."""
        if name not in self._generators:
            generator = torch.Generator(device or self._device)
            self._generators[name] = generator.manual_seed(self.seed(f"stream/{name}"))
            if name in self._unclaimed:
                generator.set_state(self._unclaimed.pop(name))
        return self._generators[name]

    def clock(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the current step."""
        return Clock(self._stopwatch, self._clocks, name)

    def observe(self, **values: Tensor | float) -> None:
        """Record values of the current step."""
        for name, value in values.items():
            self._values[name] = value.detach() if isinstance(value, Tensor) else value

    def budget(self, epsilon: float, delta: float, likely: DpEvent, alone: bool = False) -> Budget:
        """It admits no event that would pass (epsilon, delta); see methods.base.Run."""
        return Allotment(epsilon, delta, likely) if alone else Filter(epsilon, delta, likely)

    def steps(self, phase: str, total: int, state: State) -> Iterator[int]:
        """Yield the steps still to do; see methods.base.Run."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", phase):
            raise ValueError(f"a phase is named by small letters, digits and hyphens, got {phase!r}")
        if phase in self.phases:
            raise ValueError(f"the phase {phase!r} was already run: give every phase its own name")
        check_state(state)
        self.finish()  # the phase before may have been left by a break
        self._series = self.phases[phase] = Series()
        done = self._resume(phase, state)
        memory = PeakMemory(self._device)
        self._series.resting_memory_bytes = self._series.resting_memory_bytes or memory.resting
        saved_at = time.monotonic()
        try:
            for step in range(done, total):
                self.position = (phase, step, total)
                self._clocks, self._values = {}, {}
                cpu, mark = time.process_time(), self._stopwatch.start()
                yield step
                wall = self._stopwatch.seconds(mark)
                self._record(step, wall, time.process_time() - cpu)
                if len(self._unseen) >= LOOK_EVERY:
                    self._look()
                stopping = self.stop()
                if stopping or time.monotonic() - saved_at > self.interval:
                    self._save(phase, step + 1, state, memory)
                    saved_at = time.monotonic()
                if stopping:
                    raise Interrupted(f"stopped after step {step} of phase {phase}")
        finally:  # also where the method leaves the loop early
            self._series.peak_memory_bytes = max(self._series.peak_memory_bytes, memory.peak())
        self.position = (phase, total, total)
        if done < total:
            self._save(phase, total, state, memory)

    def finish(self) -> None:
        """Look at the last observed values; call it when the method has returned."""
        self._look()

    def _record(self, step: int, wall: float, cpu: float) -> None:
        series = self._series
        for name, seconds in self._clocks.items():
            series.column(series.clocks, name).append(seconds)
        for name, value in self._values.items():
            self._unseen.append((step, name, value))
        series.wall.append(wall)
        series.cpu.append(cpu)

    def _look(self) -> None:
        """Move observed values from the device into the series; the first non-finite one ends the run."""
        unseen, self._unseen = self._unseen, []
        for step, name, value in unseen:
            number = float(value)
            if not math.isfinite(number):
                raise Diverged(self.position[0], step, name)
            if name in TAKEN or name.startswith("clock_"):
                raise ValueError(
                    f"a value cannot be observed as {name!r}, a column of the step table: rename it"
                )
            column = self._series.values.setdefault(name, [])
            column.extend([math.nan] * (step - len(column)))
            column.append(number)

    def _save(self, phase: str, done: int, state: State, memory: PeakMemory) -> None:
        self._look()
        self._series.peak_memory_bytes = max(self._series.peak_memory_bytes, memory.peak())
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "run": self.name,
            "torch": torch.__version__,
            "done": done,
            "state": {name: state_of(thing) for name, thing in state.items()},
            "streams": self._unclaimed | {name: each.get_state() for name, each in self._generators.items()},
            "torch_stream": _torch_stream(self._device),
            "series": _packed(self._series),
        }
        write_checkpoint(self.folder / f"{phase}.safetensors", content)

    def _resume(self, phase: str, state: State) -> int:
        """Put back what the last checkpoint of this phase holds; the number of steps it had done."""
        saved = read_checkpoint(self.folder / f"{phase}.safetensors") if self.folder else None
        # Another torch may round differently: half of each would be a result of neither.
        if saved is None or (saved["run"], saved["torch"]) != (self.name, torch.__version__):
            return 0
        if saved["state"].keys() != state.keys():  # of the method's code before it was changed
            return 0
        for name, thing in state.items():
            put_back(thing, saved["state"][name])
        for name, stream in saved["streams"].items():
            if name in self._generators:
                self._generators[name].set_state(stream)
            else:
                self._unclaimed[name] = stream
        _restore_torch_stream(self._device, saved["torch_stream"])
        self._series = self.phases[phase] = _unpacked(saved["series"])
        return int(saved["done"])


def _torch_stream(device: torch.device) -> dict[str, Tensor]:
    streams = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        streams["cuda"] = torch.cuda.get_rng_state(device)
    return streams


def _restore_torch_stream(device: torch.device, streams: dict[str, Tensor]) -> None:
    torch.set_rng_state(streams["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(streams["cuda"], device)


def _packed(series: Series) -> dict[str, Any]:
    return {
        "wall": _doubles(series.wall),
        "cpu": _doubles(series.cpu),
        "clocks": {name: _doubles(column) for name, column in series.clocks.items()},
        "values": {name: _doubles(column) for name, column in series.values.items()},
        "resting_memory_bytes": series.resting_memory_bytes,
        "peak_memory_bytes": series.peak_memory_bytes,
    }


def _doubles(column: list[float]) -> Tensor:
    return torch.tensor(column, dtype=torch.float64)


def _unpacked(saved: dict[str, Any]) -> Series:
    return Series(
        wall=saved["wall"].tolist(),
        cpu=saved["cpu"].tolist(),
        clocks={name: column.tolist() for name, column in saved["clocks"].items()},
        values={name: column.tolist() for name, column in saved["values"].items()},
        resting_memory_bytes=saved["resting_memory_bytes"],
        peak_memory_bytes=saved["peak_memory_bytes"],
    )
