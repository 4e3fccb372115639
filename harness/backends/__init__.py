"""Backends: where jobs run. Each takes jobs (harness/backends/base.py)."""

from harness.backends.base import Backend
from harness.backends.docker.backend import Docker
from harness.backends.local.backend import Local
from harness.backends.slurm.backend import Slurm

__all__ = ["BACKENDS", "Backend"]

BACKENDS: dict[str, type[Backend]] = {"local": Local, "docker": Docker, "slurm": Slurm}
