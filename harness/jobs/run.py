"""The Run that methods train with: steps, timing, checkpoints, randomness, progress."""

import hashlib
import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from dp_accounting import DpEvent
from torch import Tensor

from harness.jobs.checkpoint import check_state, read_checkpoint, restore, state_of, write_checkpoint
from harness.jobs.clock import PeakMemory, Span, stopwatch
from harness.jobs.device import accelerator
from harness.jobs.releases import ReleaseRecorder, Trial
from methods.base import Budget, State
from workloads.errors import Diverged

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 30.0
LOOK_EVERY = 64
"""Steps between two reads of times and observed values: a read waits for the device, a step never does."""
DRAWING = "drawing"
"""The part of a step spent drawing batches; methods cannot use this name."""
ACCEPTED = "accepted"
"""The column of the step table set by `verdict`: 1 if the step became an update, else 0."""
RESERVED = ("phase", "step", "wall_seconds", "cpu_seconds")
"""Columns of the step table, which observed values cannot use as names."""


class Interrupted(BaseException):
    """The run was stopped and has saved a checkpoint. Not an Exception, so that no method catches it."""


@dataclass
class Series:
    """Measurements of one phase, a value per step."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    clocks: dict[str, list[float]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    resting_memory_bytes: int = 0
    peak_memory_bytes: int = 0

    def column(self, columns: dict[str, list[float]], name: str) -> list[float]:
        """A column of `clocks` or `values`, filled with NaN for the steps before it first appeared."""
        column = columns.setdefault(name, [])
        missing = len(self.wall) - len(column)
        if missing:
            column.extend([math.nan] * missing)
        return column


Part = tuple[str, Span]
"""A part of a step: its name, and the marks around it."""


class Timed(NamedTuple):
    """Marks around a step, read later."""

    parts: int
    """Number of parts recorded when it ended."""
    whole: Span
    cpu: float
    """CPU seconds of the process; NaN on a device, where the process only waits."""


class Clock:
    """Context manager that times a part of a step; one for each name, entered in every step.

    A class with slots, at a third of the cost of a generator, since a step may enter several.
    """

    __slots__ = ("begun", "mark", "name", "parts")

    def __init__(self, mark: Callable[[], Any], parts: list[Part], name: str) -> None:
        self.mark, self.parts, self.name = mark, parts, name
        self.begun: list[Any] = []
        """Marks of the blocks that are open: a block may contain another of its name."""

    def __enter__(self) -> None:
        self.begun.append(self.mark())

    def __exit__(self, *error: object) -> None:
        self.parts.append((self.name, (self.begun.pop(), self.mark())))


class Drawing:
    """Context manager that times drawing; nested blocks count once."""

    __slots__ = ("inside", "part", "run")

    def __init__(self, run: "Run") -> None:
        self.run, self.inside = run, 0

    def __enter__(self) -> None:
        self.inside += 1
        if self.inside == 1:
            self.part = self.run.part(DRAWING)
            self.part.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.inside -= 1
        if self.inside == 0:
            self.part.__exit__(*error)


class Run(ReleaseRecorder):
    """One training, possibly resumed; implements methods.base.Run.

    Args:
        name: Seeds the random streams; the task's key.
        device: The device of tensors.
        folder: The folder of checkpoints; None disables them.
        interval: Seconds between checkpoints.
        stop: Called after every step; True saves a checkpoint and raises Interrupted.
    """

    reads_ahead = True

    def __init__(
        self,
        name: str,
        device: torch.device,
        folder: Path | None = None,
        interval: float = CHECKPOINT_SECONDS,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self.name, self.folder, self.interval, self.stop = name, folder, interval, stop
        self._device = device
        self._accelerator = accelerator(device)
        self._stopwatch = stopwatch(device)
        self._generators: dict[str, torch.Generator] = {}
        self._unclaimed: dict[str, Tensor] = {}
        """States of streams from a checkpoint that have not been requested yet: their device is unknown."""
        self._series = Series()
        self._unread: list[Timed] = []
        self._unseen: list[tuple[int, dict[str, Tensor | float]]] = []
        self._parts: list[Part] = []
        """Of the steps that are not read, and of the current one."""
        self._clocks: dict[str, Clock] = {}
        self._values: dict[str, Tensor | float] = {}
        self._drawing = Drawing(self)
        self._verdict: bool | None = None
        """Whether the step became an update; None without a verdict."""
        self.phases: dict[str, Series] = {}
        self.position = ("", 0, 0)
        """(phase, steps done, total), for the heartbeat."""
        # Layers such as dropout use torch's default generator: seeded here, checkpointed below.
        torch.manual_seed(self.seed("torch"))

    @property
    def device(self) -> torch.device:
        """The device of tensors."""
        return self._device

    def seed(self, name: str) -> int:
        """A 63-bit seed that depends only on the task and the name."""
        digest = hashlib.sha256(f"{self.name}/{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def generator(self, name: str, device: torch.device | None = None) -> torch.Generator:
        """The named random stream of this task, by default on the run's device."""
        stream = name if self.current is None else f"{self.current.name}/{name}"
        if stream in self._generators:
            self._share(self._generators[stream])
        else:
            generator = torch.Generator(device or self._device)
            self._generators[stream] = generator.manual_seed(self.seed(f"stream/{name}"))
            if stream in self._unclaimed:
                generator.set_state(self._unclaimed.pop(stream))
        return self._generators[stream]

    @contextmanager
    def trial(self, name: str, members: int) -> Iterator[None]:
        """One of several trainings of which the best is released; see methods.base.Run."""
        if self.current is not None:
            raise ValueError(f"trial {name!r} begins inside of trial {self.current.name!r}: end that first")
        outer_name, outer_releases = self.name, self.releases
        self.current = trial = Trial(name, members)
        # Seeds and checkpoints are those of the trial.
        self.name, self.releases = f"{outer_name}/{name}", trial.releases
        try:
            yield
            self._look()
        finally:
            self.name, self.releases, self.current = outer_name, outer_releases, None
        self.trials.append(trial)

    def clock(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the current step."""
        if name == DRAWING:
            raise ValueError(
                f"a part of a step cannot be named {name!r}, which is reserved for run.sampler and "
                "run.drawing(): rename it, or use run.drawing()"
            )
        return self.part(name)

    def part(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the current step under any name."""
        clock = self._clocks.get(name)
        if clock is None:
            clock = self._clocks[name] = Clock(self._stopwatch.mark, self._parts, name)
        return clock

    def drawing(self) -> AbstractContextManager[None]:
        """Time a block as drawing a batch."""
        return self._drawing

    def verdict(self, accepted: bool) -> None:
        """Record whether the current step became an update."""
        self._verdict = bool(accepted)
        self._values[ACCEPTED] = float(accepted)

    def observe(self, **values: Tensor | float) -> None:
        """Record values of the current step."""
        for name, value in values.items():
            if isinstance(value, Tensor) and value.requires_grad:
                self._values[name] = value.detach()
            else:
                self._values[name] = value

    def budget(self, epsilon: float, delta: float, likely: DpEvent, alone: bool = False) -> Budget:
        """A budget that admits no event beyond (epsilon, delta); see methods.base.Run."""
        from harness.accounting import Allotment, Filter  # loads accountants

        return Allotment(epsilon, delta, likely) if alone else Filter(epsilon, delta, likely)

    def steps(self, phase: str, total: int, state: State) -> Iterator[int]:
        """Yield the remaining steps; see methods.base.Run."""
        phase = phase if self.current is None else f"{self.current.name}-{phase}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", phase):
            raise ValueError(f"the name of a phase has lower-case letters, digits and hyphens, got {phase!r}")
        if phase in self.phases:
            raise ValueError(f"the phase {phase!r} was already run: give every phase its own name")
        check_state(state)
        self.finish()  # the previous phase may have been left by a break
        self._series = self.phases[phase] = Series()
        done = self._resume(phase, state)
        memory, mark, process_time = PeakMemory(self._device), self._stopwatch.mark, self._process_time
        self._series.resting_memory_bytes = self._series.resting_memory_bytes or memory.resting
        saved_at = time.monotonic()
        try:
            for step in range(done, total):
                self.position = (phase, step, total)
                self._values, self._verdict = {}, None
                self._drop_parts()
                cpu, begin = process_time(), mark()
                yield step
                self._unread.append(Timed(len(self._parts), (begin, mark()), process_time() - cpu))
                if self._values:
                    self._unseen.append((step, self._values))
                if max(len(self._unread), len(self._unseen)) >= LOOK_EVERY:
                    self._look()
                stopping = self.stop()
                if stopping or time.monotonic() - saved_at > self.interval:
                    self._save(phase, step + 1, state, memory)
                    saved_at = time.monotonic()
                if stopping:
                    raise Interrupted(f"stopped after step {step} of phase {phase}")
        finally:  # also if the method leaves the loop early
            self._series.peak_memory_bytes = max(self._series.peak_memory_bytes, memory.peak())
        self.position = (phase, total, total)
        if done < total:
            self._save(phase, total, state, memory)

    def finish(self) -> None:
        """Read the last steps; call it when the method has returned."""
        self._look()

    def _process_time(self) -> float:
        """CPU seconds of the process; NaN on a device, where the process spins while it waits."""
        return time.process_time() if self._accelerator.host else math.nan

    def _drop_parts(self) -> None:
        """Drop parts outside steps, and of a step that was not finished."""
        recorded = self._unread[-1].parts if self._unread else 0
        if len(self._parts) > recorded:
            del self._parts[recorded:]

    def _look(self) -> None:
        """Move times and observed values from the device into the series."""
        self._read_clocks()
        self._see_values()

    def _read_clocks(self) -> None:
        """Read the marks of the last steps, after one wait for the last of them."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        parts = self._parts[: unread[-1].parts]
        self._parts.clear()  # in place: clocks refer to it
        seconds = self._stopwatch.read([*(span for _, span in parts), *(step.whole for step in unread)])
        whole, series, begin = seconds[len(parts) :], self._series, 0
        for step, wall in zip(unread, whole, strict=True):
            clocks: dict[str, float] = {}
            for place in range(begin, step.parts):
                name = parts[place][0]
                clocks[name] = clocks.get(name, 0.0) + seconds[place]
            for name, total in clocks.items():
                series.column(series.clocks, name).append(total)
            series.wall.append(wall)
            series.cpu.append(step.cpu)
            begin = step.parts

    def _see_values(self) -> None:
        """Read observed values; Diverged at the first non-finite one."""
        unseen, self._unseen = self._unseen, []
        every = [(step, name, value) for step, values in unseen for name, value in values.items()]
        numbers = read_values([value for _, _, value in every])
        columns = self._series.values
        for (step, name, _), number in zip(every, numbers, strict=True):
            if not math.isfinite(number):
                if self.current is None:
                    raise Diverged(self.position[0], step, name)
                number = math.nan  # a diverged trial keeps its place
            column = columns.get(name)
            if column is None:
                column = columns[name] = self._new_column(name)
            if len(column) != step:
                column.extend([math.nan] * (step - len(column)))
            column.append(number)

    def _new_column(self, name: str) -> list[float]:
        if name in RESERVED or name.startswith("clock_"):
            raise ValueError(
                f"an observed value cannot be named {name!r}, a column of the step table: rename it"
            )
        return []

    def _save(self, phase: str, done: int, state: State, memory: PeakMemory) -> None:
        self._look()
        self._series.peak_memory_bytes = max(self._series.peak_memory_bytes, memory.peak())
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settle_streams()
        content = {
            "run": self.name,
            "torch": torch.__version__,
            "device": self._device.type,
            "card": self._accelerator.name,
            "done": done,
            "state": {name: state_of(thing) for name, thing in state.items()},
            "streams": self._unclaimed | {name: each.get_state() for name, each in self._generators.items()},
            "torch_stream": self._torch_stream(),
            "releases": self.releases.state_dict(),
            "series": _packed(self._series),
        }
        write_checkpoint(self.folder / f"{phase}.safetensors", content)

    def _resume(self, phase: str, state: State) -> int:
        """Restore the last checkpoint of this phase; return the number of steps done."""
        saved = read_checkpoint(self.folder / f"{phase}.safetensors") if self.folder else None
        if saved is None or saved["run"] != self.name or self._other_platform(phase, saved):
            return 0
        if saved["state"].keys() != state.keys() or "releases" not in saved:
            return 0  # written by an older version
        for name, thing in state.items():
            restore(thing, saved["state"][name])
        self._settle_streams()
        for name, stream in saved["streams"].items():
            if name in self._generators:
                self._generators[name].set_state(stream)
            else:
                self._unclaimed[name] = stream
        self._restore_torch_stream(saved["torch_stream"])
        self.releases.load_state_dict(saved["releases"])
        self._series = self.phases[phase] = _unpacked(saved["series"])
        return int(saved["done"])

    def _share(self, stream: torch.Generator) -> None:
        """Note that a stream has a second user: a sampler that reads ahead must stop."""
        reader = self.readers.get(stream)
        if reader is not None:
            reader.read_no_further()
        self.readers[stream] = None

    def _settle_streams(self) -> None:
        """Put every stream where the steps so far have left it, though samplers read ahead."""
        for reader in self.readers.values():
            if reader is not None:
                reader.settle()

    def _other_platform(self, phase: str, saved: dict[str, Any]) -> bool:
        """Whether the checkpoint is of another torch or device: a mixture would not be reproducible."""
        here = {"torch": torch.__version__, "device": self._device.type, "card": self._accelerator.name}
        there = {name: saved.get(name) for name in here}
        if there == here:
            return False
        logger.warning(
            "phase %s restarts: its checkpoint was made with torch %s on %s (%s), "
            "this is torch %s on %s (%s)",
            *(phase, *there.values(), *here.values()),
        )
        return True

    def _torch_stream(self) -> dict[str, Tensor]:
        return {"cpu": torch.get_rng_state(), self._device.type: self._accelerator.random_state()}

    def _restore_torch_stream(self, streams: dict[str, Tensor]) -> None:
        torch.set_rng_state(streams["cpu"])
        self._accelerator.set_random_state(streams[self._device.type])


def read_values(values: Sequence[Tensor | float]) -> list[float]:
    """Convert to floats, with one copy for all tensors of a kind; RuntimeError for several elements."""
    kinds: dict[tuple[torch.device, torch.dtype, torch.Size], list[Tensor]] = {}
    places: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            kind = value.device, value.dtype, value.shape
            kinds.setdefault(kind, []).append(value)
            places.append(kind)
        else:
            places.append(None)
    read = {kind: iter(torch.stack(each).view(len(each)).tolist()) for kind, each in kinds.items()}
    return [
        float(value) if place is None else float(next(read[place]))
        for value, place in zip(values, places, strict=True)
    ]


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
