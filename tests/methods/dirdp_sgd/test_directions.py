"""Redrawn directions: the distribution, the densities that a guarantee rests on, and every special case."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import cumulative_trapezoid
from torch import Tensor

from harness.accounting.accountants.sphere import renyi_von_mises_fisher
from methods.dirdp_sgd.directions import draw_angles, redraw, row_lengths
from methods.mechanisms.bessel import mean_resultant_length

DRAWS = 100_000


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows_of(mean: Tensor, count: int) -> Tensor:
    return mean.expand(count, len(mean)).contiguous()


def test_angles_have_their_known_mean_and_spread() -> None:
    """The facts of dirdp_sgd, within four standard errors."""
    spreads = {(75, 10.0): 0.11259, (1000, 50.0): 0.03151}
    for dimension, kappa in [(2, 1.0), (3, 10.0), (10, 5.0), *spreads, (768, 1.0), (10_000, 3e5)]:
        cosines, sines = draw_angles(DRAWS, dimension, kappa, stream(1))
        error = float(cosines.std()) / math.sqrt(DRAWS)
        known = mean_resultant_length(dimension, kappa)
        assert float(cosines.mean()) == pytest.approx(known, abs=4 * error), (dimension, kappa)
        if (dimension, kappa) in spreads:
            # The relative error of a standard deviation is 1 / sqrt(2 n).
            assert float(cosines.std()) == pytest.approx(
                spreads[dimension, kappa], rel=4 / math.sqrt(2 * DRAWS)
            )
        torch.testing.assert_close(cosines**2 + sines**2, torch.ones_like(cosines), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("dimension", "kappa"), [(2, 0.5), (3, 4.0), (20, 1e-3), (75, 50.0), (300, 3e4)])
def test_angles_follow_their_density(dimension: int, kappa: float) -> None:
    """(1 - w^2)^((K-3)/2) e^(kappa w), integrated numerically over the angle."""
    cosines, _ = draw_angles(20_000, dimension, kappa, stream(2))
    angles = np.linspace(1e-9, math.pi - 1e-9, 200_001)
    height = kappa * np.cos(angles) + (dimension - 2) * np.log(np.sin(angles))
    below = cumulative_trapezoid(np.exp(height - height.max()), angles, initial=0)
    found = stats.kstest(np.arccos(cosines.numpy()), lambda at: np.interp(at, angles, below / below[-1]))
    assert found.pvalue > 1e-3


def plain_angles(count: int, dimension: int, kappa: float, generator: torch.Generator) -> tuple[Tensor, int]:
    """Wood's sampler as it is printed, from the same randomness; and how many proposals it took."""
    rest = dimension - 1
    b = rest / (2 * kappa + math.sqrt(4 * kappa**2 + rest**2))
    x0 = (1 - b) / (1 + b)
    c = kappa * x0 + rest * math.log(1 - x0**2)
    found, proposals, pending = [math.nan] * count, 0, list(range(count))
    while pending:
        shape = torch.full((2, len(pending)), rest / 2, dtype=torch.float64)
        gammas = torch._standard_gamma(shape, generator=generator)
        uniforms = torch.rand(len(pending), dtype=torch.float64, generator=generator)
        proposals += len(pending)
        refused = []
        for place, row in enumerate(pending):
            z = float(gammas[0, place] / gammas[:, place].sum())
            w = (1 - (1 + b) * z) / (1 - (1 - b) * z)
            if kappa * w + rest * math.log(1 - x0 * w) - c >= math.log(float(uniforms[place])):
                found[row] = w
            else:
                refused.append(row)
        pending = refused
    return torch.tensor(found, dtype=torch.float64), proposals


@pytest.mark.parametrize(
    ("dimension", "kappa", "acceptance"),
    [
        (3, 10.0, 0.715),
        (75, 50.0, 0.893),
        (75, 500.0, 0.73),
        (300, 500.0, 0.80),
        (10_000, 3e5, 0.714),
        (768, 1.0, 0.999),
    ],
)
def test_angles_are_those_of_the_printed_sampler(dimension: int, kappa: float, acceptance: float) -> None:
    count = 4000
    reference, proposals = plain_angles(count, dimension, kappa, stream(3))
    cosines, _ = draw_angles(count, dimension, kappa, stream(3))
    torch.testing.assert_close(cosines, reference, rtol=0, atol=1e-9)
    error = math.sqrt(acceptance * (1 - acceptance) / count)
    assert count / proposals == pytest.approx(acceptance, abs=4 * error + 0.003)


@pytest.mark.parametrize("dimension", [2, 3, 31, 32, 5000])
def test_a_direction_is_its_angle_and_a_normal_across(dimension: int) -> None:
    """The tangent-normal form in doubles, one row at a time, from the same randomness."""
    vectors = 7 * torch.randn(50, dimension, generator=stream(4), dtype=torch.float64)
    drawn = redraw(vectors, 3.0, stream(5))
    replay = stream(5)
    cosines, sines = draw_angles(50, dimension, 3.0, replay)
    normals = torch.randn(50, dimension, generator=replay, dtype=torch.float64)
    for row, vector in enumerate(vectors):
        mean = vector / vector.norm()
        across = normals[row] - (normals[row] @ mean) * mean
        expected = cosines[row] * mean + sines[row] * across / across.norm()
        torch.testing.assert_close(drawn.directions[row], expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(drawn.lengths, vectors.norm(dim=1))


@pytest.mark.parametrize("dimension", [2, 3, 31, 32, 1000, 1_000_000])
def test_directions_have_norm_one(dimension: int) -> None:
    count = 2000 if dimension < 100 else 8
    vectors = 1e-3 * torch.randn(count, dimension, generator=stream(6))
    for kappa in (1e-3, float(dimension), 1e9):
        directions = redraw(vectors, kappa, stream(7)).directions
        assert directions.dtype == torch.float32
        assert (directions.double().norm(dim=1) - 1).abs().max() < 1e-6


@pytest.mark.parametrize(("dimension", "kappa"), [(4, 3.0), (75, 10.0)])
def test_the_mean_points_along_and_the_rest_spreads_evenly(dimension: int, kappa: float) -> None:
    mean = torch.nn.functional.normalize(torch.randn(dimension, generator=stream(8)), dim=0)
    count = 40_000
    drawn = redraw(rows_of(5 * mean, count), kappa, stream(9)).directions.double()
    length = mean_resultant_length(dimension, kappa)
    error = drawn.std(dim=0).max() / math.sqrt(count)
    assert (drawn.mean(dim=0) - length * mean).abs().max() < 5 * error
    basis = torch.linalg.qr(torch.cat([mean[:, None], torch.eye(dimension)[:, 1:]], dim=1).double()).Q
    across = (drawn @ basis)[:, 1:]
    expected = float(1 - (drawn @ mean.double()).square().mean()) / (dimension - 1)
    # The variance of a square of variance v is at most 2 v^2.
    assert (across.square().mean(dim=0) - expected).abs().max() < 5 * expected * math.sqrt(2 / count)


def test_the_density_ratio_is_that_of_the_guarantee() -> None:
    """kappa (mu - mu').y at most 2 kappa; its exponential averages to 1; its moments are the divergences."""
    dimension, kappa = 20, 2.0
    one, other = torch.eye(dimension)[:2].double()
    drawn = redraw(rows_of(one, DRAWS).float(), kappa, stream(10)).directions.double()
    for opposite in (other, -one):
        losses = kappa * drawn @ (one - opposite)
        assert losses.max() <= 2 * kappa
        inverse = torch.exp(-losses)
        error = float(inverse.std()) / math.sqrt(DRAWS)
        assert float(inverse.mean()) == pytest.approx(1, abs=4 * error)
    losses = 2 * kappa * drawn @ one
    error = float(losses.std()) / math.sqrt(DRAWS)
    length = mean_resultant_length(dimension, kappa)
    assert float(losses.mean()) == pytest.approx(2 * kappa * length, abs=4 * error), "Kullback-Leibler"
    moments = torch.exp(losses)
    error = float(moments.std()) / math.sqrt(DRAWS)
    expected = math.exp(renyi_von_mises_fisher(dimension, kappa, [2.0])[0])
    assert float(moments.mean()) == pytest.approx(expected, abs=4 * error), "Rényi, order 2"


@pytest.mark.parametrize("dimension", [3, 40])
def test_what_has_no_direction_gets_a_uniform_one(dimension: int) -> None:
    count = 20_000
    vectors = torch.zeros(count, dimension)
    vectors[1::4] = math.nan
    vectors[2::4, 0] = math.inf
    vectors[3::4, 0] = 1.0
    drawn = redraw(vectors, 1e4, stream(11))
    assert (drawn.directions.double().norm(dim=1) - 1).abs().max() < 1e-6
    for start in range(3):
        lost = drawn.directions[start::4]
        error = 1 / math.sqrt(dimension * len(lost))
        assert lost.mean(dim=0).abs().max() < 5 * error
    assert drawn.directions[3::4, 0].min() > 0.9
    assert (drawn.lengths[::4] == 0).all()
    assert drawn.lengths[1::4].isnan().all()
    assert drawn.lengths[2::4].isinf().all()
    assert (drawn.lengths[3::4] == 1).all()


def test_without_noise_a_direction_is_itself() -> None:
    vectors = torch.randn(30, 50, generator=stream(12))
    expected = torch.nn.functional.normalize(vectors, dim=1)
    torch.testing.assert_close(redraw(vectors, math.inf, stream(13)).directions, expected)
    # Every coordinate has a standard deviation of at most 1 / sqrt(kappa).
    torch.testing.assert_close(redraw(vectors, 1e12, stream(13)).directions, expected, rtol=0, atol=6e-6)


def test_the_seed_decides_and_the_vectors_are_left_alone() -> None:
    vectors = torch.randn(30, 50, generator=stream(14))
    kept = vectors.clone()
    one, same, other = (redraw(vectors, 5.0, stream(seed)).directions for seed in (15, 15, 16))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(vectors, kept)


def test_lengths_of_long_rows_keep_their_digits() -> None:
    rows = torch.randn(3, 1_000_000, generator=stream(17))
    torch.testing.assert_close(row_lengths(rows), rows.double().norm(dim=1), rtol=1e-6, atol=0)
