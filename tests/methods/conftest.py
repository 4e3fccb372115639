"""The simplest run a method can train through: seeds, a plain loop, and what was observed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch
from dp_accounting import DpEvent
from torch import Tensor

from harness.accounting import Allotment, Filter
from harness.jobs.releases import ReleaseRecorder
from harness.jobs.run import Interrupted, Run
from methods.base import Budget, Problem, Released, State
from workloads.base import Records
from workloads.models.mlp import mlp


class SimplestRun(ReleaseRecorder):
    """methods.base.Run without timing, checkpoints or progress."""

    device = torch.device("cpu")

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.verdicts: list[bool] = []
        self.losses: list[float] = []
        self.states: dict[str, State] = {}
        self._seed = seed
        self._generators: dict[str, torch.Generator] = {}

    def seed(self, name: str) -> int:
        return 1000 * self._seed + sum(name.encode()) % 1000

    def generator(self, name: str, device: torch.device | None = None) -> torch.Generator:
        if name not in self._generators:
            self._generators[name] = torch.Generator().manual_seed(self.seed(name))
        return self._generators[name]

    def steps(self, phase: str, total: int, state: State) -> Iterator[int]:
        self.states[phase] = state
        yield from range(total)

    def trial(self, name: str, members: int) -> AbstractContextManager[None]:
        return nullcontext()

    def clock(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def drawing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def verdict(self, accepted: bool) -> None:
        self.verdicts.append(accepted)

    def observe(self, **values: Tensor | float) -> None:
        self.losses += [float(value) for value in values.values()]

    def budget(self, epsilon: float, delta: float, likely: DpEvent, alone: bool = False) -> Budget:
        return Allotment(epsilon, delta, likely) if alone else Filter(epsilon, delta, likely)


@pytest.fixture
def run() -> SimplestRun:
    return SimplestRun()


@pytest.fixture
def run_of() -> Callable[[int], SimplestRun]:
    """From a seed to a run."""
    return SimplestRun


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


@pytest.fixture
def problem() -> Problem:
    """Four features, three classes, one hidden layer."""
    return Problem(classes=3, model=lambda seed: mlp((4, 5, 3), seed), loss=cross_entropy)


@pytest.fixture
def members() -> Records:
    """Sixty records in three well separated classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 3
    x = 0.5 * torch.randn(60, 4, generator=generator) + 2 * torch.eye(3, 4)[y]
    return Records(x, y)


@pytest.fixture
def resume(tmp_path: Path) -> Callable[[Callable[[Run], Released], int], Released]:
    """Train for a number of steps over all phases, kill the run, and resume it to the end."""

    def result(train: Callable[[Run], Released], steps: int) -> Released:
        asked: list[bool] = []

        def stop() -> bool:
            asked.append(True)
            return len(asked) == steps

        with pytest.raises(Interrupted):
            train(Run("seed", torch.device("cpu"), tmp_path, stop=stop))
        return train(Run("seed", torch.device("cpu"), tmp_path))

    return result
