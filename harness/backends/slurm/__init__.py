"""A SLURM cluster: open tasks become job arrays."""
