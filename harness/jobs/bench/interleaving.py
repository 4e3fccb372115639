"""Several trainings in one process, a step at a time: what their steps take and how much memory they need.

Every training runs its method's own `train` in a thread and waits between two steps until it is told
to go on, so exactly one works at any time. Threads, because torch's modes belong to a thread.
"""

import ctypes
import gc
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch

from harness.jobs.clock import PeakMemory
from harness.jobs.device import accelerator
from harness.jobs.run import DRAWING, Interrupted, Run

M_ARENA_MAX = -8
"""Of mallopt(3)."""


@dataclass(frozen=True)
class Lap:
    """What one step took, in seconds."""

    phase: str
    wall: float
    """On a GPU the time between events."""
    cpu: float
    """Of the whole process; NaN on a GPU."""
    clocks: Mapping[str, tuple[float, float]]
    """By name: wall and CPU time of a part of the step, drawing among them."""
    accepted: bool | None
    """Whether it became an update; None where the method gives no verdict."""
    first: bool
    """Of a phase: its turn also holds what came before, e.g. the making of a model."""

    @property
    def drawing(self) -> tuple[float, float]:
        """Wall and CPU time of drawing batches, as the run measured it."""
        return self.clocks.get(DRAWING, (0.0, 0.0))


@dataclass(frozen=True)
class Turn:
    """A player's lap in a round."""

    round: int
    place: int
    """0 for who began the round."""
    player: int
    lap: Lap


class BenchRun(Run):
    """A run that also takes the CPU time of its clocks and can be given the random streams of a round."""

    def __init__(self, name: str, device: torch.device, stop: Callable[[], bool]) -> None:
        super().__init__(name, device, interval=math.inf, stop=stop)
        self._cpu_clocks: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of the current step."""
        begin = self._process_time()
        with super().part(name):
            yield
        spent = self._process_time() - begin
        self._cpu_clocks[name] = self._cpu_clocks.get(name, 0.0) + spent

    def take_lap(self) -> Lap:
        """What the step that has just ended took; the turn's one wait for the device."""
        self._read_clocks()
        series, steps = self._series, len(self._series.wall)
        cpu, self._cpu_clocks = self._cpu_clocks, {}
        return Lap(
            phase=self.position[0],
            wall=series.wall[-1],
            cpu=series.cpu[-1],
            clocks={
                name: (column[-1], cpu[name])
                for name, column in series.clocks.items()
                if len(column) == steps  # a part of this very step
            },
            accepted=self._verdict,
            first=self.position[1] == 0,
        )

    def rename(self, name: str) -> None:
        """Begin every random stream anew, as a run of this name would."""
        self.name = name
        for stream, generator in self._generators.items():
            generator.manual_seed(self.seed(f"stream/{stream}"))


class Player:
    """One training in a thread of its own. One that ends begins again, so laps never run out.

    In a round every player's random streams begin alike: those that draw the same kind of batch draw
    the same batch, and a round compares like with like.
    """

    def __init__(
        self, name: str, train: Callable[[Run], object], device: torch.device, threads: int, seed: int
    ) -> None:
        self.name, self.train, self.device, self.threads, self.seed = name, train, device, threads, seed
        self.error: Exception | None = None
        """Why the training failed."""
        self.held: int | None = None
        """Bytes that the first turn left on a device: weights, an engine's arena, the optimizer's state."""
        self._round, self._over = 0, False
        self._lap: Lap | None = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._play, name=name, daemon=True)
        self._thread.start()

    def take_turn(self, number: int) -> Lap | None:
        """Do the next step in round `number`; None once the training has failed."""
        if self.error is not None:
            return None
        self._round, self._lap = number, None
        device = accelerator(self.device)
        resting = device.memory() if self.held is None else 0
        self._go.release()
        self._back.acquire()
        if self.held is None:
            # Resident memory of a process rises for many reasons in a first turn: it is no player's own.
            self.held = 0 if device.host else device.memory() - resting
        return self._lap

    def leave(self) -> None:
        """End the training where it stands."""
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
                    raise ValueError("the training took no step, so there is nothing to time")
        except Interrupted:
            pass
        except Exception as error:  # noqa: BLE001 - one that fails is told in the result; the others go on
            self.error = error
        finally:
            self._back.release()

    def _hand_over(self, run: BenchRun) -> bool:
        """Between two steps, outside all clocks: give the turn back and wait for the next."""
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
    """Rounds in which every player takes one turn, in an order drawn anew for each.

    `warm_up` rounds are not recorded. Then come at least `least` and at most `most` rounds; between the two
    it ends when `seconds` have passed since the first turn. Turns of players that failed are kept.
    `begin_round` is called before every round and may raise to end them all.
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
    """(Peak of a step above the resting level, resting level) in bytes, for `rounds` steps.

    On a device the peak includes what the player holds between steps; the resting level is of all players.
    The first step of a phase is left out: its turn also makes models and samplers.

    Apart from the timing: giving free memory back and resetting the high-water mark make steps slower.
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
    """Let threads that begin from now on allocate from the heap of the process, as a training alone does.

    False where the C library does not let them.

    With a heap for every thread, where the system gives and takes pages is a matter of luck, and it can cost
    one training a third of a step and the next one nothing.
    """
    with suppress(OSError, AttributeError):  # a C library without it
        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    return False


def give_back_free_memory() -> None:
    """Return what malloc keeps for later to the system: else the resting level hides the next step's peak."""
    with suppress(OSError, AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
