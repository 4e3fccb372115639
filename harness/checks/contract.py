"""Checks of a family member: what each demands and why, and what was found."""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from workloads.errors import BenchError

Subject = TypeVar("Subject")
State = Literal["ok", "warning", "failed", "skipped"]


class Broken(AssertionError):
    """The demand of a check is not met; the message states what was found."""


class Skipped(Exception):
    """The check does not apply; the message states why."""


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """One demand of a contract."""

    name: str
    """A few words, for a line of output."""
    demand: str
    """What is demanded, and why."""
    advice: str
    """What to do if it is not met."""
    perform: Callable[[Subject], str | None]
    """Raises `Broken` or `Skipped`; returns a warning if the demand is met with a reservation."""

    def __call__(self, subject: Subject) -> str | None:
        """Perform it on a subject."""
        return self.perform(subject)


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str
    state: State
    demand: str
    found: str | None
    """What was found, or why it was skipped."""
    advice: str | None
    """What to do; None unless it failed."""
    seconds: float


Contract = list[Check[Subject]]


def part_of(
    contract: Contract[Subject], name: str, demand: str, advice: str
) -> Callable[[Callable[[Subject], str | None]], Check[Subject]]:
    """Decorate a function to be a check of a contract."""

    def added(perform: Callable[[Subject], str | None]) -> Check[Subject]:
        check = Check(name, demand, advice, perform)
        contract.append(check)
        return check

    return added


def demand(met: bool, otherwise: str) -> None:
    """Raise `Broken` unless a demand is met."""
    if not met:
        raise Broken(otherwise)


def hold(contract: Iterable[Check[Subject]], subject: Subject) -> Iterator[Finding]:
    """Perform every check of a contract; whatever a member raises is a finding."""
    for check in contract:
        began = time.monotonic()
        state, found = attempt(check, subject)
        advice = check.advice if state == "failed" else None
        yield Finding(check.name, state, check.demand, found, advice, time.monotonic() - began)


def attempt(check: Check[Subject], subject: Subject) -> tuple[State, str | None]:
    """The outcome of one check on a subject."""
    try:
        warning = check(subject)
    except Skipped as reason:
        return "skipped", str(reason)
    except (Broken, BenchError) as error:
        return "failed", str(error)
    except Exception as error:  # noqa: BLE001 - any failure of the member is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "failed", f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"
    return ("warning", warning) if warning else ("ok", None)
