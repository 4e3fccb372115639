"""The random number of trials of a private search, and its distributions (Papernot and Steinke 2022)."""

import math
from dataclasses import dataclass

import torch

NEGLIGIBLE = 1e-18
"""Probabilities below it end a draw: a double in [0, 1) cannot reach them."""
POISSON = math.inf
"""The shape of the Poisson distribution."""


@dataclass(frozen=True)
class TrialCount:
    """A truncated negative binomial distribution on 1, 2, ..., or Poisson on 0, 1, ... for an infinite shape.

    Shape 0 is the logarithmic distribution and shape 1 the geometric one.
    """

    mean: float
    """At least 1."""
    shape: float
    """At least 0."""

    def draw(self, generator: torch.Generator) -> int:
        """Draw a number by inverting the distribution function."""
        uniform = torch.rand((), generator=generator, device=generator.device, dtype=torch.float64)
        return self.quantile(float(uniform))

    def quantile(self, share: float) -> int:
        """The smallest number whose distribution function exceeds a share in [0, 1)."""
        number, chance, ratio = self._first()
        while share >= chance and chance > NEGLIGIBLE:
            share -= chance
            chance *= ratio * self._growth(number)
            number += 1
        return number

    def gamma(self) -> float:
        """The parameter gamma of the truncated negative binomial distribution, by bisection of its mean."""
        low, high = math.log(1e-300), 0.0
        while high - low > 1e-14 * abs(low) and low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if _mean(math.exp(middle), self.shape) > self.mean else (low, middle)
        return math.exp(high)

    def _first(self) -> tuple[int, float, float]:
        """The smallest number, its probability, and the constant in the ratio of two successive ones."""
        if self.shape == POISSON:
            return 0, math.exp(-self.mean), self.mean
        if self.mean == 1:
            return 1, 1.0, 0.0
        gamma = self.gamma()
        if self.shape == 0:
            return 1, (1 - gamma) / -math.log(gamma), 1 - gamma
        return 1, (1 - gamma) * self.shape / math.expm1(-self.shape * math.log(gamma)), 1 - gamma

    def _growth(self, number: int) -> float:
        """The other factor of P[number + 1] / P[number]."""
        return 1 / (number + 1) if self.shape == POISSON else (number + self.shape) / (number + 1)


def _mean(gamma: float, shape: float) -> float:
    """The mean of a truncated negative binomial distribution."""
    if gamma >= 1:
        return 1.0
    if shape == 0:
        return (1 / gamma - 1) / -math.log(gamma)
    return shape * (1 - gamma) / (gamma * -math.expm1(shape * math.log(gamma)))
