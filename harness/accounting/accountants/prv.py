"""Privacy random variables: a third accountant for sampled Gaussians, with error bounds on both sides.

Written after Gopi, Lee and Wutschitz 2021, the method behind Opacus's default accountant, so that a price
needs no torch; a test compares it with Opacus's own.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from scipy.fft import irfft, next_fast_len, rfft
from scipy.integrate import quad_vec
from scipy.special import ndtr

from harness.accounting.accountants.losses import solve_epsilon
from harness.accounting.accountants.sphere import Floats

ERROR = 0.01
"""In epsilon, for epsilons up to 10, as in Opacus; proportional above."""
LARGEST = 2**23
"""Mesh points beyond which there is no estimate."""
KINDS = 16
"""Different Gaussians beyond which there is none: each takes as long as all uses of one."""
SMALLEST = 1e-10
"""The delta below which there is none: the transform's rounding would show."""


@dataclass(frozen=True)
class Estimate:
    """Epsilon, and an interval that is proved to contain it."""

    lower: float
    middle: float
    upper: float


Steps = Mapping[tuple[float, float], int]
"""(rate, noise) of sampled Gaussians to the number of uses."""


def sampled_gaussians(event: DpEvent, count: int = 1) -> Steps | None:
    """The Gaussians and their counts if the event consists of sampled Gaussians only, else None."""
    found: Counter[tuple[float, float]] = Counter()
    if isinstance(event, SelfComposedDpEvent):
        return sampled_gaussians(event.event, count * event.count)
    if isinstance(event, ComposedDpEvent):
        for part in event.events:
            inside = sampled_gaussians(part, count)
            if inside is None:
                return None
            found.update(inside)
    elif isinstance(event, GaussianDpEvent):
        found[1.0, float(event.noise_multiplier)] = count
    elif isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, GaussianDpEvent):
        found[float(event.sampling_probability), float(event.event.noise_multiplier)] = count
    elif not isinstance(event, NoOpDpEvent):
        return None
    return {each: uses for each, uses in found.items() if each[0] > 0}


def epsilon_prv(gaussians: Steps, delta: float, rough: float) -> Estimate | None:
    """Epsilon of sampled Gaussians; None if there are none or the numbers are out of range.

    `rough` is an upper bound on epsilon at delta / 10^4, which sets the window.
    """
    if delta < SMALLEST or not 1 <= len(gaussians) <= KINDS:
        return None
    error, slack = ERROR * max(1.0, rough / 10), delta / 1000
    width = error / math.sqrt(sum(gaussians.values()) * math.log(12 / slack) / 2)
    size = next_fast_len(2 * math.ceil((rough + 3) / width) + 1, real=True)
    if size > LARGEST:
        return None
    grid: Floats = (np.arange(size, dtype=np.float64) - size // 2) * width
    edges: Floats = np.append(grid - width / 2, grid[-1] + width / 2)
    spectrum, shift = np.ones(size // 2 + 1, dtype=np.complex128), 0.0
    for (rate, noise), steps in gaussians.items():
        cumulative = loss_cdf(edges, rate, noise)
        masses = np.diff(cumulative) / (cumulative[-1] - cumulative[0])
        # Shifting the mesh to the true mean makes the rounding errors of the steps cancel on average.
        shift += steps * (loss_mean(rate, noise) - float(grid @ masses))
        spectrum *= rfft(np.fft.ifftshift(masses)) ** steps
    composed = np.fft.fftshift(irfft(spectrum, size))
    losses: Floats = grid + shift
    return Estimate(
        lower=max(0.0, solve_epsilon(losses, composed, delta + slack) - error),
        middle=solve_epsilon(losses, composed, delta),
        upper=solve_epsilon(losses, composed, delta - slack) + error,
    )


def loss_cdf(loss: Floats, rate: float, noise: float) -> Floats:
    """P[L <= loss] for L = log(dP/dQ) under P = (1 - q) N(0, s^2) + q N(1, s^2), against Q = N(0, s^2)."""
    lowest = math.log1p(-rate) if rate < 1 else -math.inf
    above = loss > lowest
    # exp(loss) = 1 - q + q exp((2 x - 1) / (2 s^2)), solved for x
    inner = loss[above] + (np.log(-np.expm1(lowest - loss[above])) if rate < 1 else 0.0) - math.log(rate)
    x = noise**2 * inner + 0.5
    found = np.zeros_like(loss)
    found[above] = (1 - rate) * ndtr(x / noise) + rate * ndtr((x - 1) / noise)
    return found


def loss_mean(rate: float, noise: float) -> float:
    """E[L] under P, by integrating over the output."""

    def integrand(z: float) -> float:
        def loss(x: float) -> float:
            return float(np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * noise**2)))

        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return density * ((1 - rate) * loss(noise * z) + rate * loss(noise * z + 1))

    if rate == 1:
        return 1 / (2 * noise**2)
    kink = noise * math.log((1 - rate) / rate) + 0.5 / noise
    points = [point for point in (kink, kink - 1 / noise) if -38 < point < 38]
    return float(quad_vec(integrand, -38, 38, epsabs=1e-15, epsrel=1e-10, points=[0.0, *points])[0])
