"""Noise: its size, its stream, and that secure noise is noise too."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from methods.mechanisms.noise import Noise, SecureNoise, SeededNoise, secure_normal

SHAPES = [(3,), (2, 2), (100, 90)]


def zeros() -> list[Tensor]:
    return [torch.zeros(shape) for shape in SHAPES]


def seeded(scale: float) -> SeededNoise:
    return SeededNoise(zeros(), scale, torch.Generator().manual_seed(5))


@pytest.mark.parametrize("noise", [seeded(3.0), SecureNoise(3.0)], ids=["seeded", "secure"])
def test_it_is_gaussian_of_the_stated_size_on_every_coordinate(noise: Noise) -> None:
    drawn = noise.noisy_mean(zeros(), 4.0)
    assert [each.shape for each in drawn] == [torch.Size(shape) for shape in SHAPES]
    flat = torch.cat([each.flatten() for each in drawn])
    assert len(set(flat.tolist())) > 0.99 * len(flat)
    # One in a million runs of the secure one fails.
    assert stats.kstest(flat.numpy(), "norm", args=(0.0, 0.75)).pvalue > 1e-6


@pytest.mark.parametrize("noise", [seeded(1e-9), SecureNoise(1e-9)], ids=["seeded", "secure"])
def test_it_is_added_to_the_sums_and_divided(noise: Noise) -> None:
    sums = [torch.full(shape, float(value)) for value, shape in enumerate(SHAPES, start=1)]
    for value, mean in enumerate(noise.noisy_mean(sums, 8.0), start=1):
        torch.testing.assert_close(mean, torch.full_like(mean, value / 8))


def test_the_seed_decides_and_every_draw_is_new() -> None:
    one, same = seeded(1.0), seeded(1.0)
    first = [each.clone() for each in one.noisy_mean(zeros(), 1.0)]
    assert all(map(torch.equal, first, same.noisy_mean(zeros(), 1.0)))
    assert not any(map(torch.equal, first, one.noisy_mean(zeros(), 1.0)))


@pytest.mark.parametrize("noise", [seeded(0.0), SecureNoise(0.0)], ids=["seeded", "secure"])
def test_no_noise_leaves_the_mean(noise: Noise) -> None:
    sums = [torch.full(shape, 3.0) for shape in SHAPES]
    for mean in noise.noisy_mean(sums, 7.0):
        torch.testing.assert_close(mean, torch.full_like(mean, 3 / 7))


def test_mixed_types_keep_theirs() -> None:
    sums = [torch.zeros(4), torch.zeros(4, dtype=torch.float64)]
    noises: list[Noise] = [SeededNoise(sums, 1.0, torch.Generator()), SecureNoise(1.0)]
    for noise in noises:
        assert [each.dtype for each in noise.noisy_mean(sums, 1.0)] == [torch.float32, torch.float64]


def test_secure_normals_are_normal_and_never_the_same() -> None:
    one, other = secure_normal(20_001), secure_normal(20_001)
    assert len(one) == 20_001
    assert not torch.equal(one, other)
    assert stats.kstest(one.numpy(), "norm").pvalue > 1e-6
    assert abs(float(torch.corrcoef(torch.stack([one[:10_000], one[10_001:]]))[0, 1])) < 5 / math.sqrt(10_000)
