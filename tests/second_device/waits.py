"""What a training waits for: the waits of our own lines in every step, between two yields of `run.steps`."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from harness.jobs.run import Run
from methods.base import State
from tests.second_device.device import NO_LINE, Wait, listening

OURS = ("methods/", "workloads/", NO_LINE)
"""Whose lines are held to a budget, autograd's own thread among them. The harness looks between steps."""


@dataclass
class Step:
    """What was heard in one step."""

    phase: str
    number: int
    waits: list[Wait] = field(default_factory=list)
    units: int = 0
    """What the budget counts by, where it is not the step: see budgets.py."""


class HeardRun(Run):
    """A run that listens to the device while the method has the word."""

    def __init__(self, name: str, device: torch.device) -> None:
        super().__init__(name, device)
        self.heard: list[Step] = []

    def steps(self, phase: str, total: int, state: State) -> Iterator[int]:
        """As Run; a loop that is left early has no last step here."""
        for number in super().steps(phase, total, state):
            step = Step(phase, number)
            self.heard.append(step)
            with listening() as waits:
                yield number
            step.waits = [wait for wait in waits if wait.line.startswith(OURS)]

    def count(self) -> None:
        """One unit more in this step."""
        self.heard[-1].units += 1
