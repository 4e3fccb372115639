"""How a bench measures: device, threads, numbers of steps. Loads no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from workloads.errors import SpecError, unknown

ANY_DEVICE = "auto"
"""The best device of the machine that runs the bench."""


@dataclass(frozen=True)
class Measure:
    """How to measure."""

    device: str = ANY_DEVICE
    threads: int = 1
    steps: int = 300
    """Maximum number of timed steps of each method."""
    seconds: float = 20.0
    """Stop after this time, once 50 steps are timed."""
    warm_up: int = 10
    memory_steps: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"threads": 1, "steps": 1, "warm_up": 1, "memory_steps": 2, "seed": 0}
        problems = [
            f"{name} = {value!r}: give a whole number, {bound} or more"
            for name, bound in least.items()
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, int) or value < bound
        ]
        if not isinstance(self.seconds, int | float) or not self.seconds > 0:
            problems.append(f"seconds = {self.seconds!r}: give a number above 0")
        if not isinstance(self.device, str):
            problems.append(f"device = {self.device!r}: give cpu, cuda or {ANY_DEVICE}")
        if problems:
            raise SpecError(problems)


def measure_of(given: Mapping[str, Any], seed: int) -> Measure:
    """Parse the `measure` table of a sweep file; SpecError with all problems."""
    known = [each.name for each in fields(Measure) if each.name != "seed"]
    if strange := [name for name in given if name not in known]:
        raise SpecError([unknown("key of measure", name, known) for name in strange])
    return Measure(**given, seed=seed)
