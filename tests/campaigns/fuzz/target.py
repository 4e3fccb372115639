"""The target of a fuzzing campaign."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from harness.store import Store
from tests.campaigns.fuzz.ground import Ground


@dataclass(frozen=True)
class Target:
    """One entry point of the program."""

    name: str
    inputs: SearchStrategy[Any]
    attempt: Callable[[Ground, Any], str]
    """Tries one input: `done`, `refused`, or an exception that is a bug."""
    good: Any
    """A valid input: a target that refuses everything would test nothing."""
    weight: float = 10
    """Its share of a campaign's inputs: less for slow targets."""
    fill: Callable[[Store], None] | None = None
    """The required content of the store."""
