"""Similarity of pictures."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from harness.attacks.parts.picture_metrics import (
    EXACT,
    Likeness,
    compare,
    mean_interval,
    median_interval,
    psnr,
    ssim,
    summarise,
)
from harness.leakage.intervals import clopper_pearson


def pictures(count: int, planes: int = 3, side: int = 14, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.rand(count, planes, side, side, generator=random, dtype=torch.float64)


def naive_ssim(one: Tensor, other: Tensor) -> float:
    """The definition, window by window (Wang et al. 2004, equations 13 to 17)."""
    place = np.arange(11) - 5
    bell = np.exp(-(place[:, None] ** 2 + place**2) / (2 * 1.5**2))
    bell /= bell.sum()
    found = []
    for x, y in zip(one.numpy(), other.numpy(), strict=True):
        for i in range(x.shape[0] - 10):
            for j in range(x.shape[1] - 10):
                a, b = x[i : i + 11, j : j + 11], y[i : i + 11, j : j + 11]
                mu_a, mu_b = (bell * a).sum(), (bell * b).sum()
                var_a, var_b = (bell * (a - mu_a) ** 2).sum(), (bell * (b - mu_b) ** 2).sum()
                cov = (bell * (a - mu_a) * (b - mu_b)).sum()
                top = (2 * mu_a * mu_b + 0.01**2) * (2 * cov + 0.03**2)
                found.append(top / ((mu_a**2 + mu_b**2 + 0.01**2) * (var_a + var_b + 0.03**2)))
    return float(np.mean(found))


def test_ssim_equals_its_definition() -> None:
    one, other = pictures(2), pictures(2, seed=1)
    wanted = [naive_ssim(a, b) for a, b in zip(one, (one + other) / 2, strict=True)]
    assert ssim(one, (one + other) / 2).tolist() == pytest.approx(wanted, abs=1e-12)


def test_ssim_of_a_picture_with_itself_is_1_and_is_symmetric() -> None:
    one, other = pictures(3), pictures(3, seed=1)
    assert ssim(one, one).tolist() == pytest.approx([1, 1, 1], abs=1e-12)
    torch.testing.assert_close(ssim(one, other), ssim(other, one))
    assert ssim(one, other).max() < 0.3


def test_errors_in_both_scalings_and_of_the_mean_colour() -> None:
    original = torch.zeros(1, 2, 12, 12)
    original[:, 0, :, :6] = 1  # variance 1/4 in one plane, none in the other
    found = compare(original, original + 0.1, deviation=torch.tensor([0.5, 0.1]).view(2, 1, 1))
    assert found.mse.tolist() == pytest.approx([0.01])
    assert found.mse_normalised.tolist() == pytest.approx([(0.04 + 1) / 2])
    assert found.mse_mean_colour.tolist() == pytest.approx([0.125])


def test_pictures_smaller_than_the_window_have_no_ssim() -> None:
    found = compare(pictures(6, side=10), pictures(6, side=10, seed=1), torch.ones(3, 1, 1))
    assert found.ssim is None and "ssim" not in found.arrays()
    figures = summarise(found, torch.ones(6, dtype=torch.bool), np.zeros(6, dtype=np.int64))
    assert figures.ssim_mean is None and figures.ssim_mean_low is None


def test_psnr() -> None:
    assert psnr(np.array([1.0, 0.01, 1e-4])).tolist() == pytest.approx([0, 20, 40])
    assert psnr(np.array([0.0])).item() == pytest.approx(-10 * math.log10(EXACT)) == 100


@pytest.mark.parametrize("n", [6, 7, 20, 32, 101])
def test_the_medians_interval_covers_95_percent_and_is_the_narrowest_that_does(n: int) -> None:
    median, low, high = median_interval(np.arange(1.0, n + 1))
    assert low is not None and high == n + 1 - low and median == (n + 1) / 2
    # It misses where fewer than `low` of n fair coins fall on one side of the median.
    assert 2 * stats.binom.cdf(low - 1, n, 0.5) <= 0.05 < 2 * stats.binom.cdf(low, n, 0.5)


def test_five_values_have_no_interval_for_their_median() -> None:
    assert median_interval(np.arange(5.0)) == (2, None, None)


def test_the_means_interval_is_students() -> None:
    values = np.random.default_rng(0).standard_normal(12)
    wanted = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert mean_interval(values) == pytest.approx((values.mean(), *wanted))
    assert mean_interval(values[:1]) == (values[0], None, None)


def test_the_figures_of_a_few_pictures() -> None:
    mse = np.array([1e-4, 5e-4, 0.01, 0.02, 0.06, 0.07])
    likeness = Likeness(mse, 16 * mse, np.linspace(0, 1, 6), np.full(6, 0.05))
    figures = summarise(likeness, torch.tensor([1, 1, 1, 0, 1, 1]).bool(), np.array([0, 0, 0, 1, 1, 2]))
    assert (figures.images, figures.interval) == (6, "over pictures of 3 models")
    assert figures.mse_median == pytest.approx(0.015)
    assert figures.mse_median_normalised == pytest.approx(0.24)
    assert (figures.mse_median_low, figures.mse_median_high) == (1e-4, 0.07)
    assert figures.mse_median_mean_colour == 0.05
    assert figures.beats_mean_colour == pytest.approx(4 / 6)
    assert figures.beats_mean_colour_low < 4 / 6 < figures.beats_mean_colour_high
    assert figures.success_rate == pytest.approx(2 / 6)
    assert figures.label_accuracy == pytest.approx(5 / 6)
    assert figures.ssim_mean == pytest.approx(0.5)


def test_from_four_models_on_figures_are_means_over_models() -> None:
    """Pictures of one model share its weights: the interval is over models."""
    random = np.random.default_rng(0)
    models = np.repeat(np.arange(5), [7, 7, 6, 6, 6])
    mse = 0.05 + 0.02 * random.random(5)[models] + 0.01 * random.random(32)
    likeness = Likeness(mse, mse, random.random(32), np.full(32, 0.065))
    figures = summarise(likeness, torch.ones(32, dtype=torch.bool), models)
    assert figures.interval == "targets"
    groups = [models == model for model in range(5)]
    for values, figure, name in (
        (mse, np.median, "mse_median"),
        (likeness.ssim, np.mean, "ssim_mean"),
        (mse < 0.065, np.mean, "beats_mean_colour"),
    ):
        assert values is not None
        each = [float(figure(values[group])) for group in groups]
        low, high = stats.t.interval(0.95, 4, np.mean(each), stats.sem(each))
        shown = [getattr(figures, name + end) for end in ("", "_low", "_high")]
        ends = (-1.0, 1.0) if name == "ssim_mean" else (0.0, 1.0)
        assert shown == pytest.approx([np.mean(each), max(low, ends[0]), min(high, ends[1])])
    exact = clopper_pearson(0, 32)
    assert (figures.success_rate, figures.success_rate_low, figures.success_rate_high) == (0.0, *exact), (
        "a share without spread keeps the interval over pictures"
    )
