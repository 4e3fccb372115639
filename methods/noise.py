"""Gaussian noise on sums of gradients: from a seeded stream, or from the operating system's secure one."""

import math
import os
from collections.abc import Sequence
from functools import reduce
from typing import Protocol

import torch
from torch import Tensor


class Noise(Protocol):
    """Gaussian noise for sums over one model's weights."""

    def noisy_mean(self, sums: list[Tensor], divisor: float) -> list[Tensor]:
        """(sum + noise) / divisor, independent on every coordinate. The next call may reuse the tensors."""
        ...


class SeededNoise:
    """Noise of standard deviation `scale` from a generator: reproducible, so not for deployment."""

    def __init__(self, weights: Sequence[Tensor], scale: float, generator: torch.Generator) -> None:
        self.scale, self.generator = scale, generator
        count, dtype = (
            sum(w.numel() for w in weights),
            reduce(torch.promote_types, (w.dtype for w in weights)),
        )
        # One draw for all weights, into the same memory in every step.
        self._drawn = torch.empty(count, dtype=dtype, device=generator.device)
        self._pieces = cut(self._drawn, weights)
        self._alike = all(w.dtype == dtype and w.device == generator.device for w in weights)

    def noisy_mean(self, sums: list[Tensor], divisor: float) -> list[Tensor]:
        """See Noise."""
        if self.scale == 0:
            # Not only quicker: the same bits as without this class.
            return [each / divisor for each in sums]
        self._drawn.normal_(0.0, self.scale / divisor, generator=self.generator)
        pieces = self._pieces
        if not self._alike:
            pieces = [piece.to(each) for piece, each in zip(pieces, sums, strict=True)]
        torch._foreach_add_(pieces, sums, alpha=1 / divisor)
        return pieces


class SecureNoise:
    """Noise from the operating system's cryptographic generator: two runs never agree.

    Every value is half the sum of four Gaussians, as in Opacus's secure mode: the low bits of a single
    floating-point Gaussian can tell what it was added to (Mironov 2012; Holohan and Braghin 2021).
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def noisy_mean(self, sums: list[Tensor], divisor: float) -> list[Tensor]:
        """See Noise."""
        if self.scale == 0:
            return [each / divisor for each in sums]
        count = sum(each.numel() for each in sums)
        drawn = torch.stack([secure_normal(count) for _ in range(4)]).sum(dim=0).mul_(self.scale / 2)
        pieces = zip(cut(drawn, sums), sums, strict=True)
        # Added in double precision, rounded once.
        return [((piece.to(each.device) + each) / divisor).to(each.dtype) for piece, each in pieces]


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
    """A flat tensor as views of these shapes, in order."""
    pieces = torch.split(drawn, [each.numel() for each in like])
    return [piece.view(each.shape) for piece, each in zip(pieces, like, strict=True)]
