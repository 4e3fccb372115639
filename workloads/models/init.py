"""Seeded initialisation: the same seed gives the same weights, and global random streams stay untouched."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A context to build a model in: its weights depend on `seed` only, and global streams are restored.

    Layers initialise themselves from torch's global CPU stream; build on the CPU, move afterwards.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
