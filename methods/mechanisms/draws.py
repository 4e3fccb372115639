"""Standard draws in double precision, and the mechanisms that add or compare with them.

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
    """Write Gaussian noise of this standard deviation into a tensor, which is given back."""
    return out.normal_(0.0, scale, generator=generator)


def add_gaussian(value: Tensor, generator: torch.Generator, scale: float) -> Tensor:
    """The value with Gaussian noise of this standard deviation on every coordinate, in doubles."""
    return value + scale * gaussian(value.shape, generator).to(value.device)


def add_gaussian_each(values: Sequence[Tensor], generator: torch.Generator, scale: float) -> list[Tensor]:
    """The tensors with Gaussian noise of this standard deviation on every coordinate, in their own types."""
    drawn = (torch.randn(each.shape, generator=generator, device=generator.device) for each in values)
    return [each + scale * noise.to(each) for each, noise in zip(values, drawn, strict=True)]


def add_gaussian_number(
    value: float, generator: torch.Generator, multiplier: float, sensitivity: float, secure: bool
) -> float:
    """The number with noise of standard deviation multiplier * sensitivity; by secure bits where asked."""
    drawn = gaussian(torch.Size((1,)), generator)
    return value + sensitivity * float(multiplier * (secure_normal(1) if secure else drawn))


def choose(scores: Tensor, generator: torch.Generator, factor: float) -> int:
    """The number of a score, with odds exp(factor * score): the exponential mechanism.

    At factor = epsilon / (2 sensitivity) it is (epsilon, 0)-DP (McSherry and Talwar 2007).
    """
    uniform = torch.rand(len(scores), generator=generator, device=generator.device, dtype=torch.float64)
    # The largest sum of a logarithm of odds and Gumbel noise is a draw with these odds.
    gumbel = -uniform.clamp(min=1e-300).log().neg().log()
    return int((scores * factor + gumbel.to(scores.device)).argmax())


def noisy_argmin(sums: Tensor, generator: torch.Generator, scale: float) -> int:
    """The number of the smallest sum, after each is made smaller by exponential noise: report noisy max.

    Where one record raises every sum by something between 0 and b, as a bounded loss does, this is
    (b / scale, 0)-DP (Ding et al. 2021). The sign matters: noise that makes sums larger protects less and
    less the more there are, since of many such noises the smallest is near 0.
    """
    return int((sums - scale * exponential(sums.shape, generator).to(sums.device)).argmin())
