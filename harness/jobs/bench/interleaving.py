"""Interleave several trainings in one process, a step at a time, to compare their time and memory.

Each training runs its method's `train` in a thread and waits between steps for its turn, so that only one
runs at any time. Threads, because torch's modes are thread-local.
"""

import ctypes
import gc
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from harness.jobs.clock import PeakMemory
from harness.jobs.device import accelerator
from harness.jobs.run import DRAWING, Interrupted, Run

M_ARENA_MAX = -8
"""Of mallopt(3)."""


@dataclass(frozen=True)
class Lap:
    """Times of one step, in seconds."""

    phase: str
    wall: float
    """On a GPU the time between events."""
    cpu: float
    """Of the whole process; NaN on a GPU."""
    clocks: Mapping[str, tuple[float, float]]
    """Wall and CPU time of parts of the step by name, including drawing."""
    accepted: bool | None
    """Whether it became an update; None if the method gives no verdict."""
    first: bool
    """Whether it is the first of its phase, whose turn includes setup such as building a model."""

    @property
    def drawing(self) -> tuple[float, float]:
        """Wall and CPU time of drawing batches, as measured by the run."""
        return self.clocks.get(DRAWING, (0.0, 0.0))


@dataclass(frozen=True)
class Turn:
    """A player's lap in a round."""

    round: int
    place: int
    """Position in the round, from 0."""
    player: int
    lap: Lap


class CpuClock:
    """Context manager that times a part of a step, with its CPU time."""

    __slots__ = ("begin", "name", "now", "seconds", "wall")

    def __init__(
        self,
        wall: AbstractContextManager[None],
        now: Callable[[], float],
        seconds: dict[str, float],
        name: str,
    ) -> None:
        self.wall, self.now, self.seconds, self.name = wall, now, seconds, name

    def __enter__(self) -> None:
        self.begin = self.now()
        self.wall.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.wall.__exit__(*error)
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + self.now() - self.begin


class BenchRun(Run):
    """A run that also measures the CPU time of its clocks and can be reseeded for a round."""

    def __init__(self, name: str, device: torch.device, stop: Callable[[], bool]) -> None:
        super().__init__(name, device, interval=math.inf, stop=stop)
        self._cpu_clocks: dict[str, float] = {}

    def part(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the current step."""
        return CpuClock(super().part(name), self._process_time, self._cpu_clocks, name)

    def take_lap(self) -> Lap:
        """Times of the step that just ended; the only wait for the device in a turn."""
        self._read_clocks()
        series, steps = self._series, len(self._series.wall)
        cpu = dict(self._cpu_clocks)
        self._cpu_clocks.clear()
        return Lap(
            phase=self.position[0],
            wall=series.wall[-1],
            cpu=series.cpu[-1],
            clocks={
                name: (column[-1], cpu[name])
                for name, column in series.clocks.items()
                if len(column) == steps  # a part of this step
            },
            accepted=self._verdict,
            first=self.position[1] == 0,
        )

    def rename(self, name: str) -> None:
        """Reseed every random stream, as in a run of this name."""
        self.name = name
        for stream, generator in self._generators.items():
            generator.manual_seed(self.seed(f"stream/{stream}"))


class Player:
    """One training in its own thread; restarted when it ends, so that laps never run out.

    In a round all players have the same random streams, so that those with the same sampler draw the same
    batch.
    """

    def __init__(
        self, name: str, train: Callable[[Run], object], device: torch.device, threads: int, seed: int
    ) -> None:
        self.name, self.train, self.device, self.threads, self.seed = name, train, device, threads, seed
        self.error: Exception | None = None
        """Why the training failed."""
        self.held: int | None = None
        """Bytes kept on a device after the first turn: weights, buffers of an engine, optimiser state."""
        self._round, self._over = 0, False
        self._lap: Lap | None = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._play, name=name, daemon=True)
        self._thread.start()

    def take_turn(self, number: int) -> Lap | None:
        """Run the next step, in round `number`; None if the training has failed."""
        if self.error is not None:
            return None
        self._round, self._lap = number, None
        device = accelerator(self.device)
        resting = device.memory() if self.held is None else 0
        self._go.release()
        self._back.acquire()
        if self.held is None:
            # Resident memory of a process rises for many reasons in a first turn and is not attributed.
            self.held = 0 if device.host else device.memory() - resting
        return self._lap

    def leave(self) -> None:
        """End the training."""
        self._over = True
        self._go.release()
        self._thread.join(timeout=60)

    def _play(self) -> None:
        self._go.acquire()
        torch.set_num_threads(self.threads)
        try:
            while not self._over:
                run = BenchRun(self._stream(), self.device, stop=lambda: self._hand_over(run))  # noqa: B023
                self.train(run)
                run.finish()
                if not any(series.wall for series in run.phases.values()):
                    raise ValueError("the training made no step to time")
        except Interrupted:
            pass
        except Exception as error:  # noqa: BLE001 - a failure is reported in the result; the others continue
            self.error = error
        finally:
            self._back.release()

    def _hand_over(self, run: BenchRun) -> bool:
        """Between two steps, outside all clocks: end the turn and wait for the next."""
        self._lap = run.take_lap()
        self._back.release()
        self._go.acquire()
        run.rename(self._stream())
        return self._over

    def _stream(self) -> str:
        return f"bench/{self.seed}/{self._round}"


def play(
    players: Sequence[Player],
    warm_up: int,
    least: int,
    most: int,
    seconds: float,
    seed: int,
    begin_round: Callable[[int], None] = lambda number: None,
) -> list[Turn]:
    """Run rounds in which every player takes one turn, in random order.

    `warm_up` rounds are not recorded. Then follow at least `least` and at most `most` rounds, as many as fit
    into `seconds` since the first turn. Turns of players that failed later are kept.
    `begin_round` is called before every round and may raise to stop.
    """
    order, turns = random.Random(seed), []
    begin = time.monotonic()
    for number in range(-warm_up, most):
        if number >= least and time.monotonic() - begin > seconds:
            break
        begin_round(number)
        places = order.sample(range(len(players)), len(players))
        for place, player in enumerate(places):
            lap = players[player].take_turn(number)
            if lap is not None and number >= 0:
                turns.append(Turn(number, place, player, lap))
    return turns


def weigh(player: Player, device: torch.device, first_round: int, rounds: int) -> list[tuple[int, int]]:
    """Measure (peak of a step above the resting level, resting level) in bytes, for `rounds` steps.

    On a device the peak includes what the player keeps between steps; the resting level includes all
    players. The first step of a phase is left out: its turn also builds models and samplers.

    Separate from timing, because trimming the heap and resetting the peak slow down steps.
    """
    found = []
    gc.collect()
    for number in range(first_round, first_round + rounds):
        give_back_free_memory()
        memory = PeakMemory(device)
        lap = player.take_turn(number)
        if lap is not None and not lap.first:
            found.append((memory.peak() - memory.resting + (player.held or 0), memory.resting))
    return found


def share_one_heap() -> bool:
    """Make threads started from now on share the main heap, as in a single training.

    False if the C library does not support it.

    With a heap per thread, page faults are distributed at random and can cost one training a third of a step
    and the next one nothing.
    """
    with suppress(OSError, AttributeError):  # a C library without it
        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    return False


def give_back_free_memory() -> None:
    """Trim the heap: otherwise the resting level hides the next step's peak."""
    with suppress(OSError, AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
