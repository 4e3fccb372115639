"""Selective release (Fu et al. 2024): the cost of rejected attempts, and of not charging them.

The headline charges all attempts. The other prices show how far the paper's charge can be from the truth.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
)
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from harness.accounting.accountants.losses import solve_epsilon
from harness.accounting.accountants.sphere import Floats
from methods.mechanisms.events import SelectiveReleaseDpEvent
from workloads.errors import AccountingError

MESH = 2e-5
THRESHOLDS = (1.5, 2.0)
"""Thresholds of the worst-case test, in standard deviations of the proposal's noise."""


@dataclass(frozen=True)
class Selection:
    """A run of Fu et al. 2024: a noisy proposal and a noisy test of it, on two Poisson samples."""

    rate: float
    noise: float
    """Of the proposal, relative to its clipping norm."""
    test_rate: float
    test_noise: float
    """Of the test, relative to its clipping range's width."""
    accepted: int
    attempts: int
    beta: float = -1.0
    """The test passes below beta times the clipping range."""
    extra: tuple[float, ...] = ()
    """Noise of other Gaussian releases on all data, such as a normalisation."""

    def __post_init__(self) -> None:
        if not 0 <= self.accepted <= self.attempts:
            raise AccountingError(
                f"accepted must be from 0 to the number of attempts, {self.attempts}; got {self.accepted}",
                field="accepted",
                value=self.accepted,
                allowed=(0, self.attempts),
            )

    def event(self) -> DpEvent:
        """The ledger: every attempt, and the other releases."""
        attempt = ComposedDpEvent(
            [
                PoissonSampledDpEvent(self.rate, GaussianDpEvent(self.noise)),
                PoissonSampledDpEvent(self.test_rate, GaussianDpEvent(self.test_noise)),
            ]
        )
        run = SelectiveReleaseDpEvent(attempt, self.accepted, self.attempts, self.beta)
        return ComposedDpEvent([run, *(GaussianDpEvent(noise) for noise in self.extra)])


def find_selection(event: DpEvent) -> Selection | None:
    """The selective release recorded in a ledger; None if the ledger records something else."""
    if isinstance(event, ComposedDpEvent) and event.events:
        run, *others = event.events
        extra = tuple(each.noise_multiplier for each in others if isinstance(each, GaussianDpEvent))
        found = find_selection(run) if len(extra) == len(others) else None
        return None if found is None else replace(found, extra=found.extra + extra)
    match event:
        case SelectiveReleaseDpEvent(
            event=ComposedDpEvent(
                events=[
                    PoissonSampledDpEvent(rate, GaussianDpEvent(noise)),
                    PoissonSampledDpEvent(test_rate, GaussianDpEvent(test_noise)),
                ]
            )
        ):
            return Selection(rate, noise, test_rate, test_noise, event.accepted, event.attempts, event.beta)
    return None


def acceptance(test_noise: float, beta: float) -> tuple[float, float]:
    """P[accept] of the best and of the worst proposal that the clipped test can distinguish."""
    return float(ndtr((beta + 1) / (2 * test_noise))), float(ndtr((beta - 1) / (2 * test_noise)))


def worst_case_lower(run: Selection, delta: float, width: float = MESH) -> float:
    """A valid lower bound on the worst-case epsilon of releasing the accepted proposals only.

    The test never reads the record in question: it accepts proposals more often when their coordinate
    along the record's gradient is above a threshold. Conditioning on acceptance then re-weights the
    proposal's noise. Losses are rounded down and the tails dropped, so the pair's true epsilon is no less.
    """
    return max(_lower_bound(run, delta, width, cut * run.noise) for cut in THRESHOLDS)


def worst_case_attempts(run: Selection) -> float:
    """The expected number of attempts of the worst-case test, which accepts rarely.

    So the bound must not be compared with the price of the run's own attempts.
    """
    return run.accepted / min(_passing(run, cut * run.noise)[1] for cut in THRESHOLDS)


def _passing(run: Selection, threshold: float) -> tuple[float, float]:
    """P[accept] of the worst-case test, with the record and without."""
    good, bad = acceptance(run.test_noise, run.beta)
    above_without = float(ndtr(-threshold / run.noise))
    above_with = (1 - run.rate) * above_without + run.rate * float(ndtr((1 - threshold) / run.noise))
    return bad + (good - bad) * above_with, bad + (good - bad) * above_without


def _lower_bound(run: Selection, delta: float, width: float, threshold: float) -> float:
    """The bound for one threshold: cells of equal rounded loss, composed by FFT."""
    distributions = [(_accepted_losses(run, width, threshold), run.accepted)]
    distributions += [(_gaussian_losses(noise, width), 1) for noise in run.extra]
    distributions = [(each, count) for each, count in distributions if count]
    if not distributions:
        return 0.0
    mean = sum(count * (cells @ masses) for (cells, masses), count in distributions)
    variance = sum(
        count * ((cells**2) @ masses - (cells @ masses) ** 2) for (cells, masses), count in distributions
    )
    widest = max(float(np.abs(cells).max()) for (cells, _), _ in distributions)
    # Losses are bounded below: nothing lies 14 standard deviations down. Mass further up is dropped.
    reach = math.ceil(14 * math.sqrt(variance) + widest)
    size = next_fast_len(2 * reach + 1, real=True)
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    centre = 0
    for (cells, masses), count in distributions:
        middle = round(float(cells @ masses))
        centre += count * middle
        wrapped = np.bincount((cells.astype(np.int64) - middle) % size, masses, size)
        spectrum *= rfft(wrapped) ** count
    # The sum lies around centre; positions above half the window are negative offsets.
    masses = np.roll(np.maximum(irfft(spectrum, size), 0.0), size // 2)
    cells = np.arange(size, dtype=np.float64) - size // 2 + centre
    keep = np.abs(cells - mean) <= reach
    return solve_epsilon(width * cells[keep], masses[keep], delta)


def _accepted_losses(run: Selection, width: float, threshold: float) -> tuple[Floats, Floats]:
    """Rounded losses of one accepted proposal, record present versus absent, with masses when present."""
    good, bad = acceptance(run.test_noise, run.beta)
    passing_with, passing_without = _passing(run, threshold)
    above_with = (passing_with - bad) / (good - bad) if good > bad else 0.0
    shift = math.log(passing_without / passing_with)

    def output(cell: Floats) -> Floats:
        """The proposal at which the loss is cell * width."""
        ratio = np.expm1(cell * width - shift) + run.rate
        with np.errstate(divide="ignore", invalid="ignore"):
            found = run.noise**2 * (np.log(ratio) - math.log(run.rate)) + 0.5
        return np.where(ratio > 0, found, -np.inf)

    def passed(x: Floats) -> Floats:
        """The mass of accepted proposals up to x, record present."""
        z = x / run.noise
        below = (1 - run.rate) * ndtr(z) + run.rate * ndtr(z - 1 / run.noise)
        return np.asarray(bad * below + (good - bad) * np.maximum(below - (1 - above_with), 0.0))

    lowest = math.floor((math.log1p(-run.rate) + shift) / width) - 1
    highest = math.ceil(_loss(8 * run.noise + 1, run, shift) / width)
    cells = np.arange(lowest, highest + 1, dtype=np.float64)
    masses = np.diff(passed(output(np.append(cells, highest + 1.0)))) / passing_with
    return cells, masses


def _loss(x: float, run: Selection, shift: float) -> float:
    return float(np.logaddexp(math.log1p(-run.rate), math.log(run.rate) + (x - 0.5) / run.noise**2)) + shift


def _gaussian_losses(noise: float, width: float) -> tuple[Floats, Floats]:
    mean, deviation = 1 / (2 * noise**2), 1 / noise
    cells = np.arange(math.floor((mean - 10 * deviation) / width), math.ceil((mean + 10 * deviation) / width))
    edges = np.append(cells, cells[-1] + 1) * width
    return cells.astype(np.float64), np.diff(ndtr((edges - mean) / deviation))
