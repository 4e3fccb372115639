"""A SLURM cluster: open tasks become job arrays."""

from harness.backends.slurm.slurm import Slurm

__all__ = ["Slurm", "backend"]

backend = Slurm()
