"""Noise adapted to the records: flipped bits, or normal noise on the scale of each feature."""

from dataclasses import dataclass

import torch
from torch import Tensor

from workloads.base import Records
from workloads.errors import BenchError

SAMPLE = 4096
"""Records that determine the kind and scale of the noise."""


@dataclass(frozen=True)
class Noise:
    """The perturbation of a record; `level` is the probability that a bit flips, or a relative deviation."""

    spread: Tensor | None
    """Each feature's standard deviation; None for bits."""

    @classmethod
    def suited_to(cls, records: Records) -> "Noise":
        """The noise for records like these, without their membership."""
        x = records.take(torch.arange(min(SAMPLE, len(records)))).x
        if not x.is_floating_point():
            raise BenchError(
                f"noise is added to numbers, but these records are of {x.dtype}: give strategy = gap",
                field="strategy",
                value="noise",
                allowed="gap",
            )
        bits = bool(((x == 0) | (x == 1)).all())
        return cls(None if bits else x.float().std(dim=0, correction=0))

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels to try, ascending."""
        return (0.01, 0.02, 0.05, 0.1, 0.2) if self.spread is None else (0.05, 0.1, 0.2, 0.5, 1.0)

    def copies(self, x: Tensor, level: float, queries: int, random: torch.Generator) -> Tensor:
        """(b, queries, ...): each record unchanged, and `queries` - 1 perturbed copies."""
        many = x[:, None].repeat(1, queries, *[1] * (x.dim() - 1))
        disturbed = many[:, 1:]
        if self.spread is None:
            flips = torch.rand(disturbed.shape, generator=random) < level
            disturbed.copy_(torch.where(flips, 1 - disturbed, disturbed))
        else:
            draws = torch.randn(disturbed.shape, generator=random)
            disturbed += (level * self.spread * draws).to(x.dtype)
        return many
