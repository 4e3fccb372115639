"""Standard draws and the mechanisms made of them, against their distributions."""

import math

import pytest
import torch
from scipy.integrate import quad

from methods.mechanisms.draws import (
    add_gaussian,
    add_gaussian_each,
    add_gaussian_number,
    choose,
    exponential,
    fill_gaussian,
    laplace,
    noisy_argmin,
)

MANY = 40_000


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_laplace_has_its_mean_and_deviation() -> None:
    drawn = laplace(torch.Size([MANY]), stream())
    assert float(drawn.mean()) == pytest.approx(0, abs=5 * math.sqrt(2 / MANY))
    assert float(drawn.abs().mean()) == pytest.approx(1, abs=5 / math.sqrt(MANY))


def test_exponential_draws_have_mean_and_deviation_one() -> None:
    drawn = exponential(torch.Size([MANY]), stream())
    assert float(drawn.mean()) == pytest.approx(1, abs=5 / math.sqrt(MANY))
    assert float(drawn.std()) == pytest.approx(1, abs=15 / math.sqrt(MANY))


def test_gaussian_noise_has_the_stated_scale_however_it_is_added() -> None:
    value, scale = torch.full((MANY,), 2.0, dtype=torch.float64), 3.0
    halves = add_gaussian_each(list(torch.split(value.float(), MANY // 2)), stream(1), scale)
    numbers = [add_gaussian_number(2.0, random, 1.5, 2.0, secure=False) for random in [stream(2)] * MANY]
    found = [
        add_gaussian(value, stream(3), scale),
        torch.cat(halves),
        torch.tensor(numbers),
        2 + fill_gaussian(torch.empty(MANY), stream(4), scale),
    ]
    for noisy in found:
        assert float(noisy.mean()) == pytest.approx(2, abs=5 * scale / math.sqrt(MANY))
        assert float(noisy.std()) == pytest.approx(scale, rel=5 / math.sqrt(2 * MANY))


def test_secure_numbers_are_not_seeded_but_the_stream_advances() -> None:
    seeded, secure = stream(), stream()
    one = add_gaussian_number(0.0, seeded, 1.0, 1.0, secure=False)
    other = add_gaussian_number(0.0, secure, 1.0, 1.0, secure=True)
    assert one != other
    assert torch.equal(seeded.get_state(), secure.get_state())


def test_a_choice_has_the_odds_of_the_exponential_mechanism() -> None:
    scores, factor, random = torch.tensor([0.0, -1.0, -3.0], dtype=torch.float64), 0.7, stream()
    drawn = torch.tensor([choose(scores, random, factor) for _ in range(20_000)])
    shares = torch.bincount(drawn, minlength=3) / len(drawn)
    expected = (factor * scores).softmax(0)
    assert ((shares - expected).abs() < 5 * (expected / len(drawn)).sqrt()).all()


def win_chances(sums: list[float], scale: float) -> list[float]:
    """The probability that each index has the smallest sum - scale * exponential, by integration."""
    scores = [-each / scale for each in sums]

    def chance(place: int) -> float:
        others = [score for other, score in enumerate(scores) if other != place]

        def density(value: float) -> float:
            below = [max(0.0, 1 - math.exp(-(value - score))) for score in others]
            return math.exp(-(value - scores[place])) * math.prod(below)

        start = max(scores)
        return quad(density, start, start + 60, limit=200)[0]

    return [chance(place) for place in range(len(sums))]


def test_the_choice_has_the_chances_of_report_noisy_max() -> None:
    sums, scale, draws = [3.0, 2.0, 2.5, 6.0], 1.5, 20_000
    random = torch.Generator().manual_seed(1)
    drawn = [noisy_argmin(torch.tensor(sums, dtype=torch.float64), random, scale) for _ in range(draws)]
    chances = win_chances(sums, scale)
    assert sum(chances) == pytest.approx(1, abs=1e-6)
    for place, expected in enumerate(chances):
        assert drawn.count(place) / draws == pytest.approx(expected, abs=5 * math.sqrt(expected / draws))


def test_one_more_record_changes_the_chances_by_at_most_its_price() -> None:
    """A record raises every sum by something in [0, bound]; bound / scale is the pure epsilon."""
    bound, scale = 3.0, 2.0
    before = [10.0, 10.0, 11.0, 14.0]
    random = torch.Generator().manual_seed(2)
    worst = 0.0
    for raised in [
        torch.tensor([3.0, 0, 0, 0]),
        *(bound * torch.rand(4, generator=random) for _ in range(20)),
    ]:
        after = [old + float(more) for old, more in zip(before, raised, strict=True)]
        ratios = [
            math.log(new / old)
            for new, old in zip(win_chances(after, scale), win_chances(before, scale), strict=True)
        ]
        worst = max(worst, *(abs(each) for each in ratios))
    assert worst <= bound / scale + 1e-6
    assert worst > 0.7 * bound / scale
