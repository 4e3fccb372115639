"""Per-example clipping: the interface of engines, and what they share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from methods.base import Loss as Loss
from methods.gradients.contributions import joined

Clipping = Literal["flat", "per_layer"]
"""What is clipped: the whole gradient, or each layer's part of it.

"per_layer" clips each of L layers (a module with its own weights, including its bias) to clip / sqrt(L), so
that the whole clipped gradient is still at most clip (McMahan et al. 2018).
"""

# Opacus's guard against dividing by zero. It only lowers the factor, so norms stay <= clip.
GUARD = 1e-6


@dataclass(slots=True)  # not frozen, which takes microseconds of every step
class Clipped:
    """The clipped gradients of a batch of B examples, summed."""

    sums: list[Tensor]
    """One per trainable parameter, in the order of the engine's `weights`; the caller may change them."""
    norms: Tensor
    """(B,): gradient norms before clipping, over all parameters together; may be non-finite."""
    losses: Tensor
    """(B,)"""
    longer: Tensor | float
    """What `beyond` returns; or the clip, if all norms are finite and have only to be compared with it, which
    is left to those who ask: in every step it would be felt (measured)."""
    nonfinite: int | Tensor
    """Number of examples with a non-finite gradient, which counts as zero in the sums. A tensor off the CPU:
    reading it waits for the device."""

    @property
    def beyond(self) -> Tensor:
        """(B,): whether a finite gradient, or a layer of it if clipped by layer, was longer than the clip."""
        return self.longer if isinstance(self.longer, Tensor) else self.norms > self.longer

    @property
    def clipped(self) -> int:
        """Number of clipped examples. Waits for the device: see Tally."""
        return int(self.beyond.sum())

    def mean_loss(self) -> Tensor:
        """The mean over examples with a finite gradient; 0 for an empty batch.

        Not finite if no example of a batch has a finite gradient: then the model has diverged, and the
        examples are not outliers.
        """
        if self.losses.shape[0] == 0:
            return self.losses.new_zeros(())
        if isinstance(self.nonfinite, Tensor):
            good = torch.isfinite(self.norms)
            return torch.where(good, self.losses, 0.0).sum() / good.sum()
        return (self.losses[torch.isfinite(self.norms)] if self.nonfinite else self.losses).mean()


class Engine(Protocol):
    """Computes clipped per-example gradients of one model."""

    @property
    def name(self) -> str:
        """The engine's name, as in `make_engine`."""
        ...

    @property
    def why(self) -> str:
        """Why this engine computes the gradients of this model."""
        ...

    @property
    def weights(self) -> list[nn.Parameter]:
        """The trainable parameters, in the order of every `Clipped.sums`."""
        ...

    def clipped_sum(
        self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor] | None = None, share: float = 1.0
    ) -> Clipped:
        """The sum over the batch of share c_i g_i with c_i = min(1, clip / (|g_i| + 1e-6)).

        It is added to `onto`, contiguous tensors like `weights` (such as noise, which saves a pass over
        memory); default: zeros. `clip` may be infinite; the batch may be empty. `.grad` is neither read nor
        set.
        """
        ...

    def norms(self, x: Tensor, y: Tensor) -> Tensor:
        """(B,): the gradient norm of every example; may be non-finite."""
        ...

    def per_example(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """The gradients, (B, *shape) for each of `weights`: B times the memory of the model."""
        ...

    def release(self) -> None:
        """Remove the engine's hooks from the model."""
        ...


class BatchEngine(ABC):
    """Common part of all engines: empty batches, and physical batches smaller than the logical one.

    Clipping is per example, so the sum over physical batches is the sum over the logical one.
    """

    name: str
    why: str

    def __init__(self, weights: list[nn.Parameter], clipping: Clipping, physical: int | None) -> None:
        self.weights, self.clipping, self.physical = weights, clipping, physical

    def clipped_sum(
        self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor] | None = None, share: float = 1.0
    ) -> Clipped:
        """See Engine."""
        if onto is None:
            onto = [weight.detach().new_zeros(weight.shape) for weight in self.weights]
        # len() of a tensor takes as long as a small kernel; shapes do not.
        if x.shape[0] == 0:
            empty = self.weights[0].detach().new_zeros(0)
            return Clipped(onto, empty, empty, empty.bool(), 0)
        batches = self._split(x, y)
        if len(batches) == 1:
            return self._clip(x, y, clip, onto, share)
        parts = [self._clip(*part, clip, onto, share) for part in batches]
        norms, losses = torch.cat([p.norms for p in parts]), torch.cat([p.losses for p in parts])
        beyond = torch.cat([p.beyond for p in parts])
        return Clipped(onto, norms, losses, beyond, sum(p.nonfinite for p in parts))

    def norms(self, x: Tensor, y: Tensor) -> Tensor:
        """See Engine."""
        if len(x) == 0:
            return self.weights[0].new_zeros(0)
        return torch.cat([self._norms(*part) for part in self._split(x, y)])

    def per_example(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """See Engine."""
        if len(x) == 0:
            return [w.new_zeros(0, *w.shape) for w in self.weights]
        parts = [self._per_example(*part) for part in self._split(x, y)]
        return [torch.cat(each) for each in zip(*parts, strict=True)]

    def _split(self, x: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Physical batches of nearly equal size."""
        if self.physical is None or x.shape[0] <= self.physical:
            return [(x, y)]
        size = math.ceil(len(x) / math.ceil(len(x) / self.physical))
        return list(zip(torch.split(x, size), torch.split(y, size), strict=True))

    @abstractmethod
    def _clip(self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor], share: float) -> Clipped:
        """`clipped_sum` of one physical batch that is not empty."""

    @abstractmethod
    def _norms(self, x: Tensor, y: Tensor) -> Tensor:
        """`norms` of one physical batch that is not empty."""

    @abstractmethod
    def _per_example(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """`per_example` of one physical batch that is not empty."""

    @abstractmethod
    def release(self) -> None:
        """See Engine."""


@dataclass(slots=True)
class Factors:
    """Factors of every example's gradient in the sum."""

    norms: Tensor
    """(B,): over all layers; may be non-finite."""
    layers: list[Tensor]
    """(B,) for each layer; 0 if any layer's gradient is not finite."""
    longer: Tensor | float
    """As in Clipped."""
    good: Tensor | None
    """(B,): whether the gradient is finite; None if all are known to be."""
    nonfinite: int | Tensor
    """As in Clipped."""


def clip_factors(parts: Sequence[Tensor], clip: float, clipping: Clipping, share: float) -> Factors:
    """The factors from the norms (B,) of every layer."""
    norms = joined(parts)
    longer: Tensor | float = clip
    if clipping == "flat":
        factors = [shrink(norms, clip, share)] * len(parts)
    else:
        budget = clip / math.sqrt(len(parts))
        factors = [shrink(part, budget, share) for part in parts]
        longer = torch.stack([part > budget for part in parts]).any(dim=0)
    on_host = norms.device.type == "cpu"
    if on_host and all_finite(norms):
        return Factors(norms, factors, longer, None, 0)
    # Off the CPU, checking for such an example would wait for the device.
    good = torch.isfinite(norms)
    count = (~good).sum()
    factors = [torch.where(good, factor, torch.zeros_like(factor)) for factor in factors]
    beyond = longer if isinstance(longer, Tensor) else norms > longer
    return Factors(norms, factors, beyond & good, good, int(count) if on_host else count)


def all_finite(norms: Tensor) -> bool:
    """Whether all norms are finite; may be False if they are finite but huge."""
    # One reduction instead of one per kind of number: this runs in every step.
    return math.isfinite(float(norms.sum()))


def shrink(norms: Tensor, clip: float, share: float) -> Tensor:
    """(B,): share min(1, clip / (norm + 1e-6))."""
    if clip == math.inf:
        return torch.full_like(norms, share)
    return torch.div(_number(clip * share), norms + _number(GUARD)).clamp_(max=share)


@lru_cache(maxsize=64)
def _number(value: float) -> Tensor:
    """A number as a tensor, which takes half the time of a Python float in an operation (measured).

    On the CPU, where tensors of any device can read it, and a double, so that nothing is rounded twice.
    """
    return torch.tensor(value, dtype=torch.float64)
