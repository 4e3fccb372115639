"""Importance sampling against its definition: probabilities, their bound, and unbiasedness."""

import math

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from torch import Tensor

from harness.accounting import price
from methods.dpis.importance import ImportanceSampler, boosted_rate, importance_event
from tests.methods.conftest import SimplestRun
from workloads.base import Records
from workloads.errors import SpecError

MEMBERS, BATCH, CLIP = 40, 8, 0.5


def sampler(boost: float = 3.0, seed: int = 0) -> ImportanceSampler:
    numbers = torch.arange(MEMBERS)
    return ImportanceSampler(Records(numbers, numbers), BATCH, CLIP, boost, SimplestRun(seed))


def lengths() -> Tensor:
    return CLIP * torch.linspace(0, 1, MEMBERS, dtype=torch.float64) ** 2


def draw(drawer: ImportanceSampler, norms: Tensor) -> Tensor:
    """(members,): which records are in the batch."""
    rows = drawer.candidates().x
    chosen = torch.zeros(MEMBERS, dtype=torch.bool)
    chosen[drawer.keep(norms[rows]).x] = True
    return chosen


@pytest.mark.slow
def test_records_are_drawn_in_proportion_to_their_lengths() -> None:
    norms, drawer, draws = lengths(), sampler(), 6_000
    drawer.refresh(float(norms.sum()), MEMBERS)
    shares = torch.stack([draw(drawer, norms) for _ in range(draws)]).double().mean(0)
    expected = BATCH * norms / norms.sum()
    assert float(expected.max()) < drawer.rate
    assert ((shares - expected).abs() <= 5 * (expected / draws).sqrt()).all()
    assert shares[0] == 0, "a record without a gradient is never drawn"
    assert float(shares.sum()) == pytest.approx(BATCH, rel=0.02)


def test_the_mean_of_what_is_drawn_is_the_mean_of_clipped_gradients() -> None:
    """Every drawn record contributes share * direction; with exact normalisers that is unbiased."""
    norms, drawer, draws = lengths(), sampler(seed=1), 6_000
    directions = torch.nn.functional.normalize(
        torch.randn(MEMBERS, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64), dim=1
    )
    drawer.refresh(float(norms.sum()), MEMBERS)
    chosen = torch.stack([draw(drawer, norms) for _ in range(draws)]).double()
    estimates = drawer.share * chosen @ directions
    truth = (norms[:, None] * directions).mean(0)
    tolerance = 5 * estimates.std(0) / math.sqrt(draws)
    assert ((estimates.mean(0) - truth).abs() <= tolerance).all()


def test_of_equal_lengths_it_draws_as_dp_sgd_does() -> None:
    drawer = sampler()
    drawer.refresh(MEMBERS * CLIP, MEMBERS)
    assert drawer.widest == pytest.approx(BATCH / MEMBERS)
    assert drawer.share == pytest.approx(CLIP / BATCH)
    wide = drawer.candidates()
    assert torch.equal(drawer.keep(torch.full((len(wide),), CLIP)).x, wide.x)


@pytest.mark.parametrize("total", [-50.0, 0.0, 1.0, 19.0, 1e6])
def test_no_probability_is_above_the_charged_one(total: float) -> None:
    drawer = sampler(boost=2.5)
    drawer.refresh(total, -3.0)
    assert drawer.widest <= drawer.rate == 2.5 * BATCH / MEMBERS
    assert drawer.share > 0
    assert math.isfinite(drawer.share)


def test_no_rate_is_above_one() -> None:
    assert boosted_rate(10, 5, 4.0) == 1.0
    assert boosted_rate(10, 5, 1.0) == 0.5
    with pytest.raises(SpecError) as caught:
        boosted_rate(10, 11, 1.0)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 11, (1, 10))


def test_a_saved_sampler_resumes_where_it_was() -> None:
    one, other = sampler(), sampler()
    one.refresh(7.0, 39.0)
    one.candidates()
    other.load_state_dict(one.state_dict())
    assert (other.share, other.widest) == (one.share, one.widest)
    assert other.batches.state_dict() == one.batches.state_dict()


def test_normalisers_are_charged() -> None:
    def epsilon(normaliser_noise: float) -> float:
        found = price(importance_event(0.1, 2.0, 50, normaliser_noise, 5), 1e-5).epsilon
        assert found is not None
        return found

    plain = price(importance_event(0.1, 2.0, 50, 1e6, 5), 1e-5).epsilon
    assert plain is not None
    assert epsilon(10.0) > epsilon(30.0) > plain
    assert importance_event(0.1, 0.0, 50, 30.0, 5) == NonPrivateDpEvent()
