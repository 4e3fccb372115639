"""The test of plausible deniability: how many other batches could have produced a noisy gradient?

PD-SGD, Equations 1 and 2 and Algorithm 1. With g the seed batch's gradient, Z its Gaussian noise and d the
difference to another batch's gradient, the log-likelihoods of g + Z under the two batches differ by

    log p(Z) - log p(Z + d) = (|d|^2 + 2 <Z, d>) / (2 sigma^2).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CACHED = 2**15
"""Weights at a time on a CPU: passes over millions of them take half the time if pieces stay in cache."""


@dataclass(frozen=True)
class Verdict:
    """The result of testing one proposal."""

    accepted: bool
    count: int
    """Plausible batches, including the seed, when the test stopped."""
    evaluated: int
    """Batches whose gradient was computed, including the seed."""


class DeniabilityTest:
    """Tests whether batches could plausibly have produced the noisy gradient of a seed batch.

    Only |d|^2 and <Z, d> are computed, in double precision: in the full log-densities large common terms
    cancel.

    Args:
        seed: The seed batch's gradient, a flat vector that the caller rewrites for every proposal.
        noise: Its noise, likewise.
        sigma: Standard deviation of the noise.
        gamma: Largest plausible difference of the log-likelihoods.
    """

    def __init__(self, seed: Tensor, noise: Tensor, sigma: float, gamma: float) -> None:
        self.seed, self.noise, self.sigma, self.gamma = seed, noise, sigma, gamma
        self.distances: list[float] = []
        """|d| of every batch tested since `begin`."""

    def begin(self) -> None:
        """Start the test of a new proposal."""
        self.distances = []

    def passes(self, other: Tensor) -> bool:
        """Whether a batch with this gradient could have produced the noisy gradient."""
        products = []
        pieces = (in_cache(vector) for vector in (self.seed, self.noise, other))
        for seed, noise, alternative in zip(*pieces, strict=True):
            difference = seed.double().sub_(alternative)
            products += [torch.dot(difference, difference), torch.dot(noise.double(), difference)]
        # Read both sums at once: on a GPU a read waits.
        squared, inner = torch.stack(products).view(-1, 2).sum(0).tolist()
        self.distances.append(math.sqrt(squared))
        return abs(log_ratio(squared, inner, self.sigma)) <= self.gamma


def in_cache(vector: Tensor) -> tuple[Tensor, ...]:
    """Split a flat vector into views that fit into the cache; on a GPU it is not split."""
    return torch.split(vector, CACHED if vector.device.type == "cpu" else len(vector))


def log_ratio(squared_distance: float, inner: float, sigma: float) -> float:
    """log p(Z) - log p(Z + d) from |d|^2 and <Z, d>."""
    # Two divisions: the square of a tiny sigma would be 0.
    return (squared_distance + 2 * inner) / sigma / (2 * sigma)


def half_acceptance(gamma: float) -> float:
    """The distance, in units of sigma, at which about half of the batches are plausible: sqrt(2 gamma)."""
    return math.sqrt(2 * gamma)


def count_plausible(others: Sequence[int], needed: int, passes: Callable[[int], bool]) -> Verdict:
    """Test batches until `needed` are plausible, including the seed, or that has become impossible.

    Algorithm 1 tests all batches before it rejects. Stopping early gives the same verdict with fewer
    gradients.
    """
    count, left = 1, len(others)
    for number in others:
        if count >= needed or count + left < needed:
            break
        count += passes(number)
        left -= 1
    return Verdict(count >= needed, count, 1 + len(others) - left)
