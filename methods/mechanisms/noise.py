"""Gaussian noise on sums of gradients, from a seeded stream or from the system's secure generator."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

# Numbers drawn at a time on a CPU: torch writes memory twice, and the second time it should be cached.
AT_ONCE = 2**16


class Noise(ABC):
    """Gaussian noise for means over a model's weights, independent on every coordinate.

    Between `start` and `finish` the caller adds the mean, which saves a pass over memory.
    """

    @abstractmethod
    def start(self, weights: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """Tensors of the weights' shapes to add sum / divisor to. The next call may reuse them."""

    @abstractmethod
    def finish(self, means: list[Tensor], divisor: float) -> None:
        """Complete the means after the sum was added; they are then noisy."""

    def noisy_mean(self, sums: list[Tensor], divisor: float) -> list[Tensor]:
        """(sum + noise) / divisor. The next call may reuse the tensors."""
        means = self.start(sums, divisor)
        torch._foreach_add_(means, sums, alpha=1 / divisor)
        self.finish(means, divisor)
        return means


class SeededNoise(Noise):
    """Noise of standard deviation `scale` from a generator: reproducible, so not for deployment."""

    def __init__(self, weights: Sequence[Tensor], scale: float, generator: torch.Generator) -> None:
        self.scale, self.generator = scale, generator
        count, dtype = (
            sum(w.numel() for w in weights),
            reduce(torch.promote_types, (w.dtype for w in weights)),
        )
        # One stream for all weights, and the same memory in every step.
        self._drawn = torch.empty(count, dtype=dtype, device=generator.device)
        self._parts = torch.split(self._drawn, AT_ONCE if generator.device.type == "cpu" else count)
        self._pieces = cut(self._drawn, weights)
        self._alike = all(w.dtype == dtype and w.device.type == generator.device.type for w in weights)

    def start(self, weights: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """See Noise: returns the noise."""
        if self.scale == 0:
            self._drawn.zero_()
        else:
            for part in self._parts:
                part.normal_(0.0, self.scale / divisor, generator=self.generator)
        if self._alike:
            return self._pieces
        return [piece.to(weight) for piece, weight in zip(self._pieces, weights, strict=True)]

    def finish(self, means: list[Tensor], divisor: float) -> None:
        """See Noise: nothing is left to do."""


class SecureNoise(Noise):
    """Noise from the operating system's cryptographic generator: two runs never agree.

    Every value is half the sum of four Gaussians, as in Opacus's secure mode: the low bits of a single
    floating-point Gaussian can reveal what it was added to (Mironov 2012; Holohan and Braghin 2021).
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def start(self, weights: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """See Noise: zeros."""
        return [weight.detach().new_zeros(weight.shape) for weight in weights]

    def finish(self, means: list[Tensor], divisor: float) -> None:
        """See Noise: adds the noise in double precision and rounds once."""
        if self.scale == 0:
            return
        count = sum(mean.numel() for mean in means)
        drawn = torch.stack([secure_normal(count) for _ in range(4)]).sum(dim=0)
        for mean, piece in zip(means, cut(drawn.mul_(self.scale / 2 / divisor), means), strict=True):
            mean.copy_(piece.to(mean.device).add_(mean))


def secure_normal(count: int) -> Tensor:
    """(count,): standard normal doubles by Box and Muller (1958) from secure bits."""
    pairs = (count + 1) // 2
    bits = torch.frombuffer(bytearray(os.urandom(16 * pairs)), dtype=torch.int64)
    # 53 bits each, moved off 0: uniform on (0, 1).
    uniform = ((bits >> 11) & (2**53 - 1)).double().add_(0.5).mul_(2.0**-53).view(2, pairs)
    radius = uniform[0].log().mul_(-2.0).sqrt_()
    angle = uniform[1] * (2 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count]


def cut(drawn: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Split a flat tensor into views of these shapes."""
    pieces = torch.split(drawn, [each.numel() for each in like])
    return [piece.view(each.shape) for piece, each in zip(pieces, like, strict=True)]
