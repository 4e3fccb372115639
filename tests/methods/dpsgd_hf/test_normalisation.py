"""Private statistics against their definition, and what normalisation does to records."""

import math

import pytest
import torch
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from torch import Tensor

from harness.accounting import price
from methods.dpsgd_hf.normalisation import (
    BOUNDS,
    ChannelNormalised,
    GroupNormalised,
    channel_moments,
    estimate_moments,
    high_share,
    moments_event,
    noisy_mean,
    private_quantile,
    refuse_unfit,
)
from tests.methods.conftest import SimplestRun
from workloads.base import Records
from workloads.errors import SpecError


def images(count: int) -> Tensor:
    random = torch.Generator().manual_seed(3)
    return 2 + torch.randn(count, 3, 4, 4, generator=random)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def asked(seed: int = 0) -> SimplestRun:
    """A run whose statistics are drawn from this seed."""
    return SimplestRun(seed)


def test_moments_of_channels_are_means_over_places() -> None:
    x = images(5)
    mean, square = channel_moments(x)
    for record in range(5):
        for channel in range(3):
            places = [float(value) for value in x[record, channel].flatten()]
            assert float(mean[record, channel]) == pytest.approx(sum(places) / 16, abs=1e-6)
            assert float(square[record, channel]) == pytest.approx(sum(v * v for v in places) / 16, rel=1e-5)
    flat = torch.randn(4, 7, generator=stream())
    assert torch.equal(channel_moments(flat)[0], flat), "a channel of one place is its own mean"


def test_the_statistics_are_near_the_true_ones() -> None:
    """Not equal, even without noise: records beyond the bound are clipped."""
    spread = torch.tensor([1.0, 0.5, 2.0])[:, None, None]
    x = 0.3 + spread * torch.randn(5_000, 3, 8, 8, generator=stream(7))
    mean, variance = estimate_moments(Records(x, torch.zeros(len(x))), 1.0, 1.0, asked())
    torch.testing.assert_close(mean, torch.full((3,), 0.3, dtype=torch.float64), rtol=0, atol=0.1)
    torch.testing.assert_close(variance.sqrt(), spread.flatten().double(), rtol=0.2, atol=0)


def bound_of(rows: Tensor, epsilon: float, run: SimplestRun) -> float:
    norms = rows.double().norm(dim=1)
    return private_quantile("bound", norms, high_share(len(rows), epsilon), epsilon, run)


def slow_noisy_mean(rows: list[list[float]], bound: float) -> list[float]:
    """The definition, without noise."""
    total = [0.0] * len(rows[0])
    for row in rows:
        norm = math.sqrt(sum(value**2 for value in row))
        factor = min(1.0, bound / norm)
        total = [old + factor * value for old, value in zip(total, row, strict=True)]
    return [value / len(rows) for value in total]


def test_the_mean_is_that_of_clipped_rows() -> None:
    rows = torch.randn(50, 4, generator=stream(5))
    bound = bound_of(rows, 30.0, asked(1))
    ours = noisy_mean("mean", rows, 0.0, 30.0, asked(1))
    assert ours.tolist() == pytest.approx(slow_noisy_mean(rows.tolist(), bound), rel=1e-6)


def test_noise_on_the_mean_has_the_stated_size() -> None:
    """Rows of length 1 in 20,000 directions: bound b, noise 8 b on the sum, over 100 rows."""
    rows = torch.nn.functional.normalize(torch.ones(100, 20_000), dim=1)
    bound = bound_of(rows, 30.0, asked(2))
    found = noisy_mean("mean", rows, 8.0, 30.0, asked(2)) - noisy_mean("mean", rows, 0.0, 30.0, asked(2))
    assert float(found.std()) == pytest.approx(8 * bound / 100, rel=5 / math.sqrt(2 * 20_000))


def test_one_record_moves_the_sum_by_at_most_the_bound() -> None:
    rows = torch.randn(30, 4, generator=stream(6))
    huge = torch.cat([rows, torch.full((1, 4), 1e6)])
    # The same bound: a quantile of many equal norms is not moved by one record at this epsilon.
    rows, huge = (torch.cat([each, rows[:1].expand(500, 4)]) for each in (rows, huge))
    bound = bound_of(rows, 0.2, asked(4))
    assert bound == bound_of(huge, 0.2, asked(4))
    sums = [noisy_mean("mean", each, 0.0, 0.2, asked(4)) * len(each) for each in (rows, huge)]
    assert float((sums[1] - sums[0]).norm()) == pytest.approx(bound, rel=1e-9)


def test_a_record_that_is_not_finite_counts_as_zero() -> None:
    rows = torch.ones(100, 3)
    rows[7, 1] = math.nan
    assert torch.isfinite(noisy_mean("mean", rows, 0.0, 5.0, asked())).all()


def scores(values: list[float], share: float) -> list[float]:
    """By how many values each bound misses: too few below it, or already enough below the previous one."""
    found: list[float] = []
    before, aim = 0, share * len(values)
    for bound in BOUNDS.tolist():
        below = sum(value < bound for value in values)
        found.append(-max(aim - below, before - aim if found else 0.0, 0.0))
        before = below
    return found


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_quantile_is_drawn_with_the_odds_of_the_exponential_mechanism(share: float) -> None:
    values, epsilon, draws = torch.tensor([0.5, 1.1, 3.0, 9.0, 40.0]), 0.8, 4_000
    rate = epsilon / (2 * max(share, 1 - share))
    odds = [math.exp(rate * score) for score in scores(values.tolist(), share)]
    run = asked(9)
    drawn = [private_quantile("bound", values, share, epsilon, run) for _ in range(draws)]
    for bound, odd in zip(BOUNDS.tolist(), odds, strict=True):
        expected = odd / sum(odds)
        spread = math.sqrt(expected / draws)
        assert abs(drawn.count(bound) / draws - expected) < 5 * spread


def test_the_share_is_a_half_where_there_are_few_and_nearly_all_where_there_are_many() -> None:
    assert high_share(700, 0.05) == 0.5
    assert high_share(60_000, 0.05) == pytest.approx(0.99)
    values = torch.rand(5_000, generator=stream(3)) + 1
    share = high_share(5_000, 0.5)
    drawn = {private_quantile("bound", values, share, 0.5, asked(seed)) for seed in range(200)}
    assert drawn == {2.0}, "the first above nearly all of them, though half of the bounds are above all"


def test_equal_norms_are_not_clipped_to_any_bound_at_random() -> None:
    values = torch.full((5_000,), 1.5)
    drawn = {private_quantile("bound", values, 0.5, 0.05, asked(seed)) for seed in range(50)}
    assert drawn == {2.0**0.75}


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_odds_of_a_quantile_keep_its_epsilon(share: float) -> None:
    """Adding any one value changes the odds of every bound by at most e^epsilon."""
    random, epsilon = stream(11), 0.3
    values = (3 * torch.randn(12, generator=random)).exp()

    def chances(given: Tensor) -> Tensor:
        rate = epsilon / (2 * max(share, 1 - share))
        return (rate * torch.tensor(scores(given.tolist(), share), dtype=torch.float64)).softmax(0)

    for added in (1e-9, 0.7, 2.0, 1e9):
        ratio = chances(torch.cat([values, torch.tensor([added])])) / chances(values)
        assert float(ratio.log().abs().max()) <= epsilon + 1e-9


def test_two_gaussians_of_noise_8_cost_what_the_paper_states() -> None:
    """Epsilon 0.695 at delta 1e-5 by the improved conversion; the bounds come on top."""
    both = price(ComposedDpEvent([GaussianDpEvent(8.0)] * 2), 1e-5).epsilons["rdp"]
    one = price(GaussianDpEvent(8 / math.sqrt(2)), 1e-5).epsilons["rdp"]
    assert both == pytest.approx(0.695, abs=5e-4)
    assert both == pytest.approx(one, rel=1e-6)
    whole = price(ComposedDpEvent(moments_event(8.0, 0.05)), 1e-5)
    assert both < whole.epsilons["rdp"] < 0.75


def test_channels_are_standardised_and_dead_ones_silenced() -> None:
    front = ChannelNormalised()
    front.fix(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 0.25, 0.0]))
    x = images(6)
    expected = torch.stack([(x[:, 0] - 1) / 2, (x[:, 1] - 2) / 0.5, torch.zeros_like(x[:, 2])], dim=1)
    torch.testing.assert_close(front(x), expected)
    torch.testing.assert_close(front(x[:, :, 0, 0]), expected[:, :, 0, 0])
    assert front(x.half()).dtype == torch.float32


def test_saved_statistics_load_into_an_empty_front() -> None:
    front, empty = ChannelNormalised(), ChannelNormalised()
    front.fix(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 0.25]))
    empty.load_state_dict(front.state_dict())
    assert torch.equal(empty.mean, front.mean)
    assert torch.equal(empty.factor, front.factor)


def test_groups_have_mean_0_and_deviation_1() -> None:
    normal = GroupNormalised(3)(images(4)).flatten(2)
    assert float(normal.mean(2).abs().max()) < 1e-5
    torch.testing.assert_close(normal.std(2, correction=0), torch.ones(4, 3), rtol=1e-2, atol=0)


@pytest.mark.parametrize(
    ("example", "groups", "message"),
    [
        (torch.zeros(1, 80, dtype=torch.int64), None, "normalisation needs records with numeric channels"),
        (torch.zeros(1), None, "normalisation needs records with numeric channels"),
        (torch.zeros(1, 64), 27, "groups = 27 must divide the 64 channels"),
        (torch.zeros(1, 64), 64, "more than one number in each group"),
    ],
)
def test_unfit_records_are_refused(example: Tensor, groups: int | None, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        refuse_unfit(example, groups)
