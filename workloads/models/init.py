"""Seeded initialisation: the same seed gives the same weights, and nobody else's randomness moves."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Build a model inside: its weights depend on `seed` only, and the global streams stay as they were.

    Layers initialise themselves from torch's global CPU stream; build on the CPU, move afterwards.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
