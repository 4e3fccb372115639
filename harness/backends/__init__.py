"""Backends: where jobs run. Each takes jobs and returns a handle (harness/backends/base.py)."""

from harness.backends.base import Backend
from harness.backends.docker import Docker
from harness.backends.local import Local
from harness.backends.slurm import Slurm

__all__ = ["BACKENDS", "Backend"]

BACKENDS: dict[str, type[Backend]] = {"local": Local, "docker": Docker, "slurm": Slurm}
