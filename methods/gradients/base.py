"""Per-example clipping: what every engine computes, whatever its tricks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits and labels to one loss per example, shape (B,)."""

# Opacus's guard against dividing by zero. It only lowers the factor, so norms stay <= clip.
GUARD = 1e-6


@dataclass(frozen=True)
class Clipped:
    """The clipped gradients of a batch of B examples, summed."""

    sums: list[Tensor]
    """One per trainable parameter, in the order of the engine's `weights`."""
    norms: Tensor
    """(B,): gradient norms before clipping, over all parameters together; may be non-finite."""
    losses: Tensor
    """(B,)"""

    @property
    def nonfinite(self) -> int:
        """How many examples had a non-finite gradient; they count as zero in the sums."""
        return int((~torch.isfinite(self.norms)).sum())

    def mean_loss(self) -> Tensor:
        """The mean over examples with a finite gradient; 0 for an empty batch.

        Not finite when no example of a batch had a finite gradient: then the model has left the
        finite numbers, not a record.
        """
        if len(self.losses) == 0:
            return self.losses.new_zeros(())
        return self.losses[torch.isfinite(self.norms)].mean()


class Engine(Protocol):
    """Computes clipped per-example gradients of one model."""

    @property
    def weights(self) -> list[nn.Parameter]:
        """The trainable parameters, in the order of every `Clipped.sums`."""
        ...

    def clipped_sum(self, x: Tensor, y: Tensor, clip: float) -> Clipped:
        """The sum over the batch of c_i g_i with c_i = min(1, clip / (|g_i| + 1e-6)).

        `clip` may be infinite; the batch may be empty (zero sums). Leaves every `.grad` as None.
        """
        ...

    def release(self) -> None:
        """Take everything off the model that the engine put on it."""
        ...


def clip_factors(norms: Tensor, clip: float) -> Tensor:
    """(B,): c_i = min(1, clip / (norm_i + 1e-6)); 0 where the norm is not finite."""
    factors = (clip / (norms + GUARD)).clamp(max=1.0)
    return torch.where(torch.isfinite(norms), factors, torch.zeros_like(factors))
