"""Label-only: how firmly the model holds to a record's label when it gives labels and nothing else."""

from harness.attacks.label_only.label_only import attack

__all__ = ["attack"]
