"""The slurm backend: job arrays of a SLURM cluster."""

from harness.backends.slurm.slurm import Slurm

__all__ = ["Slurm", "backend"]

backend = Slurm()
