"""What a campaign throws inputs at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from harness.store import Store
from tests.campaigns.fuzz.ground import Ground


@dataclass(frozen=True)
class Target:
    """One way into the program."""

    name: str
    inputs: SearchStrategy[Any]
    attempt: Callable[[Ground, Any], str]
    """Tries one input: `done`, `refused`, or an exception that is a bug."""
    good: Any
    """An input that is done: a target that refuses everything would try nothing."""
    weight: float = 10
    """Its share of a campaign's inputs: less for what takes long."""
    fill: Callable[[Store], None] | None = None
    """What the store must hold before."""
