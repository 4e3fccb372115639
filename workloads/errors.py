"""The errors a user can cause or meet.

BenchError
├── SpecError         what was asked for is wrong; lists every problem found (exit code 2)
│   └── UnknownName   a name that no member of a family has, with the nearest one
├── StoreError        the store cannot be used as it is (exit code 2)
│   └── Upstream      what a task reads has no result; the task ends as `upstream`
├── AccountingError   a ledger that cannot be priced, or a price that breaks its promise
├── BackendError      jobs cannot be handed over
├── DeviceError       the device that was asked for is not there; the task ends as `killed` and runs again
└── Diverged          a training left the finite numbers; the task ends as `diverged`

They live in the lowest package so that every floor of the house can raise them.
"""

import difflib
from collections.abc import Iterable, Sequence


class BenchError(Exception):
    """Something the user should read; everything else is a bug and keeps its traceback."""


class SpecError(BenchError):
    """What was asked for is wrong. Holds all problems, so that one look mends them all."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class UnknownName(SpecError):
    """A name outside the known ones; the message suggests the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(unknown(kind, name, known))


class StoreError(BenchError):
    """The store cannot be used as it is: wrong kind, newer protocol, unreadable."""


class Upstream(StoreError):
    """What a task reads was not made, or is gone: it says nothing about the task itself."""


class AccountingError(BenchError):
    """A ledger that cannot be priced, or a price above the target it was calibrated for."""


class BackendError(BenchError):
    """A backend could not take the jobs."""


class DeviceError(BenchError):
    """The device that was asked for is not there: it says nothing about the task itself."""

    def __init__(self, kind: str, why: str) -> None:
        self.kind = kind
        super().__init__(f"device {kind}: {why}")


class Diverged(BenchError):
    """A training produced a non-finite value."""

    def __init__(self, phase: str, step: int, what: str) -> None:
        self.phase, self.step = phase, step
        super().__init__(f"{what} is not finite at step {step} of phase '{phase}'")


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """Say what was given, the nearest allowed name and all allowed names."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    hint = f", did you mean '{near[0]}'?" if near else "."
    return f"unknown {kind} '{name}'{hint} Known: {', '.join(names) or 'none'}."
