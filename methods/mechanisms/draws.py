"""Random draws in double precision, and mechanisms that use them.

Every mechanism takes a value and a random stream, as `run.mechanism` calls it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from methods.mechanisms.noise import secure_normal


def gaussian(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Standard normal doubles."""
    return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float64)


def laplace(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Doubles from the Laplace distribution of scale 1: the difference of two exponential ones."""
    pair = exponential(torch.Size((2, *shape)), generator)
    return pair[0] - pair[1]


def exponential(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Doubles from the exponential distribution of mean 1."""
    drawn = torch.empty(shape, device=generator.device, dtype=torch.float64)
    return drawn.exponential_(generator=generator)


def fill_gaussian(out: Tensor, generator: torch.Generator, scale: float) -> Tensor:
    """Fill a tensor with Gaussian noise of this standard deviation, and return it."""
    return out.normal_(0.0, scale, generator=generator)


def add_gaussian(value: Tensor, generator: torch.Generator, scale: float) -> Tensor:
    """Add Gaussian noise of this standard deviation to every coordinate, in doubles."""
    return value + scale * gaussian(value.shape, generator).to(value.device)


def add_gaussian_each(values: Sequence[Tensor], generator: torch.Generator, scale: float) -> list[Tensor]:
    """Add Gaussian noise of this standard deviation to every coordinate, in the tensors' own types."""
    drawn = (torch.randn(each.shape, generator=generator, device=generator.device) for each in values)
    return [each + scale * noise.to(each) for each, noise in zip(values, drawn, strict=True)]


def add_gaussian_number(
    value: float, generator: torch.Generator, multiplier: float, sensitivity: float, secure: bool
) -> float:
    """Add noise of standard deviation multiplier * sensitivity to a number, optionally from secure bits."""
    drawn = gaussian(torch.Size((1,)), generator)
    return value + sensitivity * float(multiplier * (secure_normal(1) if secure else drawn))


def choose(scores: Tensor, generator: torch.Generator, factor: float) -> int:
    """Choose an index with odds exp(factor * score): the exponential mechanism.

    At factor = epsilon / (2 sensitivity) it is (epsilon, 0)-DP (McSherry and Talwar 2007).
    """
    uniform = torch.rand(len(scores), generator=generator, device=generator.device, dtype=torch.float64)
    # The Gumbel trick: the argmax of log odds plus Gumbel noise has these odds.
    gumbel = -uniform.clamp(min=1e-300).log().neg().log()
    return int((scores * factor + gumbel.to(scores.device)).argmax())


def noisy_argmin(sums: Tensor, generator: torch.Generator, scale: float) -> int:
    """Choose the index of the smallest sum after subtracting exponential noise: report noisy max.

    If one record raises every sum by between 0 and b, as a bounded loss does, this is (b / scale, 0)-DP (Ding
    et al. 2021). The sign matters: adding noise protects less the more sums there are, since the smallest of
    many noises is near 0.
    """
    return int((sums - scale * exponential(sums.shape, generator).to(sums.device)).argmin())
