"""The errors a user can cause or meet.

BenchError
├── SpecError         a wrong request; lists every problem found (exit code 2)
│   ├── UnknownName   a name outside a family, with the nearest member
│   │   └── BrokenPlugin   a plug-in that is installed but does not load, with the reason
│   └── DataError     the records or the model of a workload cannot be used
├── StoreError        the store cannot be used as it is (exit code 2)
│   └── Upstream      an input of the task has no result; the task ends as `upstream`
├── AccountingError   a ledger without a price, or a price above its target
├── BackendError      a backend does not accept the jobs
├── DeviceError       the requested device is missing; the task ends as `killed` and is retried
└── Diverged          training produced a non-finite value; the task ends as `diverged`

They live in the lowest package so that every layer can raise them.
"""

from collections.abc import Iterable, Sequence


class BenchError(Exception):
    """An error for the user to read; any other exception is a bug and keeps its traceback.

    Attributes:
        field: What was wrong: a parameter, an option, a file; None where the error is about no single thing.
        value: What was given or found.
        allowed: What is allowed instead: a bound, a pair of bounds, or the allowed values.
    """

    def __init__(
        self, message: str = "", *, field: str | None = None, value: object = None, allowed: object = None
    ) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(message)


class SpecError(BenchError):
    """A wrong request. Holds all problems, so that they can be fixed in one go."""

    def __init__(
        self,
        problems: str | Sequence[str],
        *,
        field: str | None = None,
        value: object = None,
        allowed: object = None,
    ) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems), field=field, value=value, allowed=allowed)


class UnknownName(SpecError):
    """A name outside the known ones; the message suggests the nearest.

    Attributes:
        field: The kind of thing that was named.
        value: The name.
        allowed: The known names, sorted.
        nearest: The known name most like it, if any is.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = tuple(sorted(known))
        self.nearest = find_nearest(name, names)
        super().__init__(unknown(kind, name, names), field=kind, value=name, allowed=names)


class BrokenPlugin(UnknownName):
    """A plug-in that is installed but does not load.

    Attributes:
        field: The kind of plug-in.
        value: Its name.
        origin: The object that its entry point names.
        reason: The error that loading it raised.
    """

    def __init__(self, kind: str, name: str, origin: str, reason: str) -> None:
        self.origin, self.reason, self.nearest = origin, reason, None
        text = f"{kind} '{name}' is a plug-in ({origin}) that does not load: {reason}"
        SpecError.__init__(self, text, field=kind, value=name)


class DataError(SpecError):
    """A workload whose records or model cannot be used as they are.

    Attributes:
        field: What is wrong: pool, test, x, y, model, groups or n_train.
        value: What was found.
        allowed: What is needed instead.
    """


class StoreError(BenchError):
    """The store cannot be used as it is: wrong kind, newer protocol, unreadable."""


class Upstream(StoreError):
    """An input of the task is missing; the task itself is not at fault."""


class AccountingError(BenchError):
    """A ledger that cannot be priced, or a price above the target it was calibrated for."""


class BackendError(BenchError):
    """A backend does not accept the jobs."""


class DeviceError(BenchError):
    """The requested device is missing; the task itself is not at fault."""

    def __init__(self, kind: str, why: str) -> None:
        self.kind = kind
        super().__init__(f"device {kind}: {why}", field="device", value=kind)


class Diverged(BenchError):
    """Training produced a non-finite value."""

    def __init__(self, phase: str, step: int, what: str) -> None:
        self.phase, self.step = phase, step
        super().__init__(f"{what} is not finite at step {step} of phase '{phase}'")


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """The message for an unknown name: the name, the nearest known one and all known ones."""
    names = sorted(known)
    near = find_nearest(name, names)
    hint = f", did you mean '{near}'?" if near else "."
    return f"unknown {kind} '{name}'{hint} Known: {', '.join(names) or 'none'}."


def find_nearest(name: object, known: Sequence[str]) -> str | None:
    """The known name most like this one; None if none is alike."""
    import difflib  # not every command is refused

    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    return near[0] if near else None
