"""Metrics of reconstructed pictures: errors, similarity, and the baseline of the picture's mean colour."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import conv2d

from harness.attacks.base import Bools, Floats
from harness.leakage.intervals import CONFIDENCE, FEW, clopper_pearson, linear
from harness.leakage.matrices import Ints

WINDOW, SIGMA, K1, K2 = 11, 1.5, 0.01, 0.03
"""Constants of SSIM, from its authors (Wang et al. 2004); the range of values is 1."""
SUCCESS = 1e-3
"""A picture with a smaller mean squared error counts as recovered."""
EXACT = 1e-10
"""Mean squared errors below this are rounding: a PSNR is at most 100 dB."""


@dataclass(frozen=True)
class Likeness:
    """The similarity of n reconstructed pictures to their originals; an array of n each."""

    mse: Floats
    """In [0, 1]."""
    mse_normalised: Floats
    """In units of each colour plane's standard deviation over the pool: the scale of the papers."""
    ssim: Floats | None
    """None if the pictures are smaller than the window."""
    mse_mean_colour: Floats
    """The error of the original's own mean colour: a smooth picture without content."""

    def arrays(self) -> dict[str, Floats]:
        """By name, for the result file."""
        return {name: each for name, each in vars(self).items() if each is not None}


@dataclass(frozen=True)
class Figures:
    """The figures of a result over several pictures. `_low` and `_high` bound 95 % intervals.

    Pictures of one model share its weights. From 4 models on, a figure with an interval is the mean over
    models of each model's own, with Student's interval over models; if that has no spread (a share of 0 in
    every model), or with fewer models, it is the figure over all pictures with its exact interval.
    """

    images: int
    interval: str
    """`targets`, or `over pictures of n models`."""
    mse_median: float
    mse_median_low: float | None
    mse_median_high: float | None
    mse_median_normalised: float
    mse_median_mean_colour: float
    ssim_mean: float | None
    ssim_mean_low: float | None
    ssim_mean_high: float | None
    psnr_median: float
    beats_mean_colour: float
    beats_mean_colour_low: float
    beats_mean_colour_high: float
    success_rate: float
    success_rate_low: float
    success_rate_high: float
    label_accuracy: float

    def asdict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def compare(originals: Tensor, rebuilt: Tensor, deviation: Tensor) -> Likeness:
    """Compare pictures (n, planes, height, width) in [0, 1].

    `deviation` (planes, 1, 1) is the standard deviation of the pool's pictures in [0, 1].
    """
    one, other = originals.double(), rebuilt.double()
    colour = one.mean((2, 3), keepdim=True).expand_as(one)
    return Likeness(
        mse=_mean_square(one - other),
        mse_normalised=_mean_square((one - other) / deviation.double()),
        ssim=ssim(one, other).numpy() if min(one.shape[2:]) >= WINDOW else None,
        mse_mean_colour=_mean_square(one - colour),
    )


def summarise(found: Likeness, right_labels: Tensor, models: Ints) -> Figures:
    """The figures of a result.

    Args:
        found: of n pictures.
        right_labels: (n,): whether the label was recovered.
        models: (n,): the index of the model that each picture was reconstructed from.
    """
    n = len(found.mse)
    groups = [models == model for model in np.unique(models)]
    middle = _over_models(found.mse, np.median, groups, (0.0, math.inf)) or median_interval(found.mse)
    alike: tuple[float | None, float | None, float | None] = (None, None, None)
    if found.ssim is not None:
        alike = _over_models(found.ssim, np.mean, groups, (-1.0, 1.0)) or mean_interval(found.ssim)
    better = _share((found.mse < found.mse_mean_colour).astype(np.float64), groups)
    exact = _share((found.mse < SUCCESS).astype(np.float64), groups)
    return Figures(
        images=n,
        interval="targets" if len(groups) >= FEW else f"over pictures of {len(groups)} models",
        mse_median=middle[0],
        mse_median_low=middle[1],
        mse_median_high=middle[2],
        mse_median_normalised=float(np.median(found.mse_normalised)),
        mse_median_mean_colour=float(np.median(found.mse_mean_colour)),
        ssim_mean=alike[0],
        ssim_mean_low=alike[1],
        ssim_mean_high=alike[2],
        psnr_median=float(np.median(psnr(found.mse))),
        beats_mean_colour=better[0],
        beats_mean_colour_low=better[1],
        beats_mean_colour_high=better[2],
        success_rate=exact[0],
        success_rate_low=exact[1],
        success_rate_high=exact[2],
        label_accuracy=int(right_labels.sum()) / n,
    )


def _over_models(
    values: Floats, figure: Callable[[Floats], Any], groups: list[Bools], ends: tuple[float, float]
) -> tuple[float, float, float] | None:
    """The mean over models of each one's figure, with Student's interval; None if it is uninformative."""
    if len(groups) < FEW:
        return None
    each = np.array([float(figure(values[group])) for group in groups])
    error = float(stats.sem(each))
    if error == 0:
        return None
    return float(each.mean()), *linear(float(each.mean()), error, len(each), ends)


def _share(hits: Floats, groups: list[Bools]) -> tuple[float, float, float]:
    """A share over models, or over all pictures with its exact interval."""
    count, n = int(hits.sum()), len(hits)
    return _over_models(hits, np.mean, groups, (0.0, 1.0)) or (count / n, *clopper_pearson(count, n))


def ssim(one: Tensor, other: Tensor) -> Tensor:
    """(n,): structural similarity of (n, planes, height, width) in [0, 1] (Wang et al. 2004).

    The mean over planes and over the places where the whole window fits.
    """
    places = torch.arange(WINDOW, dtype=one.dtype) - WINDOW // 2
    bell = torch.exp(-places.square() / (2 * SIGMA**2))
    window = (torch.outer(bell, bell) / bell.sum() ** 2)[None, None]

    def blurred(x: Tensor) -> Tensor:
        return conv2d(x.flatten(0, 1)[:, None], window)

    mean_one, mean_other = blurred(one), blurred(other)
    variance_one = blurred(one * one) - mean_one.square()
    variance_other = blurred(other * other) - mean_other.square()
    covariance = blurred(one * other) - mean_one * mean_other
    c1, c2 = K1**2, K2**2
    lightness = (2 * mean_one * mean_other + c1) / (mean_one.square() + mean_other.square() + c1)
    structure = (2 * covariance + c2) / (variance_one + variance_other + c2)
    return (lightness * structure).flatten(1).mean(1).view(one.shape[:2]).mean(1)


def psnr(mse: Floats) -> Floats:
    """Peak signal-to-noise ratio in dB for values in [0, 1]."""
    return -10 * np.log10(np.maximum(mse, EXACT))


def median_interval(values: Floats) -> tuple[float, float | None, float | None]:
    """Median, and its 95 % interval from order statistics, whatever the distribution; null below 6 values."""
    n, median = len(values), float(np.median(values))
    # P(the r-th smallest is above the median) = P(fewer than r of n fair coins show heads).
    rank = int(stats.binom.ppf((1 - CONFIDENCE) / 2, n, 0.5))
    if rank < 1:
        return median, None, None
    ordered = np.sort(values)
    return median, float(ordered[rank - 1]), float(ordered[n - rank])


def mean_interval(values: Floats) -> tuple[float, float | None, float | None]:
    """Mean, and its 95 % t-interval; null for a single value."""
    n, mean = len(values), float(values.mean())
    if n < 2:
        return mean, None, None
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return mean, mean - half, mean + half


def _mean_square(difference: Tensor) -> Floats:
    square: Floats = difference.square().flatten(1).mean(1).numpy()
    return square
