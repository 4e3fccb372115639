"""Batches: their statistics, their state, and the ledger of what was drawn."""

import math

import pytest
import torch
from dp_accounting import (
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from methods.training.sampling import (
    FixedSizeSampler,
    PoissonSampler,
    ShuffleSampler,
    fixed_size_event,
    poisson_event,
)
from workloads.errors import SpecError

Kind = type[PoissonSampler] | type[ShuffleSampler] | type[FixedSizeSampler]


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_poisson_batches_are_independent_draws_of_every_member() -> None:
    members, batch_size, draws = 200, 20, 4000
    sampler = PoissonSampler(members, batch_size, stream())
    hits = torch.zeros(draws, members)
    for row in hits:
        row[sampler.draw()] = 1
    rate = batch_size / members
    spread = math.sqrt(rate * (1 - rate))
    assert hits.mean() == pytest.approx(rate, abs=4 * spread / math.sqrt(draws * members))
    assert (hits.mean(0) - rate).abs().max() < 5 * spread / math.sqrt(draws), "no member is favoured"
    assert hits.sum(1).var() == pytest.approx(members * spread**2, rel=0.12), "sizes are binomial"
    neighbours = torch.corrcoef(torch.stack([hits[:, 0], hits[:, 1]]))[0, 1]
    assert abs(neighbours) < 5 / math.sqrt(draws), "members come independently of each other"


def test_full_rate_draws_every_member() -> None:
    assert PoissonSampler(7, 7, stream()).draw().tolist() == list(range(7))


def test_poisson_batches_may_be_empty() -> None:
    sampler = PoissonSampler(3, 1, stream())
    assert min(len(sampler.draw()) for _ in range(50)) == 0


def test_the_ledger_counts_the_draws() -> None:
    sampler = PoissonSampler(30, 6, stream())
    assert sampler.event(1.5) == NoOpDpEvent()
    for _ in range(4):
        sampler.draw()
    assert sampler.event(1.5) == SelfComposedDpEvent(PoissonSampledDpEvent(0.2, GaussianDpEvent(1.5)), 4)
    assert sampler.event(1.5) == poisson_event(6 / 30, 1.5, 4)
    assert sampler.event(0.0) == NonPrivateDpEvent()


def test_batches_of_an_epoch_have_no_ledger() -> None:
    """They depend on each other, so the event of a Poisson sample does not apply."""
    sampler = ShuffleSampler(10, 4, stream())
    sampler.draw()
    assert not hasattr(sampler, "event")
    assert not isinstance(sampler, PoissonSampler | FixedSizeSampler)


def test_an_epoch_draws_every_member_once() -> None:
    sampler = ShuffleSampler(10, 4, stream())
    epochs = [[sampler.draw() for _ in range(3)] for _ in range(2)]
    for epoch in epochs:
        assert [len(batch) for batch in epoch] == [4, 4, 2]
        assert sorted(torch.cat(epoch).tolist()) == list(range(10))
    assert not torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1]))


def test_batches_of_fixed_size_are_fresh_samples_without_replacement() -> None:
    members, batch_size, draws = 30, 6, 5000
    sampler = FixedSizeSampler(members, batch_size, stream())
    hits = torch.zeros(draws, members)
    for row in hits:
        batch = sampler.draw()
        assert len(set(batch.tolist())) == len(batch) == batch_size
        row[batch] = 1
    rate = batch_size / members
    spread = math.sqrt(rate * (1 - rate))
    assert (hits.mean(0) - rate).abs().max() < 5 * spread / math.sqrt(draws), "no member is favoured"
    # Without replacement two members exclude each other a little: correlation -1 / (members - 1).
    apart = torch.corrcoef(hits.T)[~torch.eye(members, dtype=torch.bool)].mean()
    assert apart == pytest.approx(-1 / (members - 1), abs=1e-3)
    follows = torch.corrcoef(torch.stack([hits[:-1].flatten(), hits[1:].flatten()]))[0, 1]
    assert abs(follows) < 5 / math.sqrt(draws * members), "batches do not depend on each other"


def test_the_ledger_of_fixed_sizes_counts_the_draws() -> None:
    sampler, release = FixedSizeSampler(30, 6, stream()), GaussianDpEvent(1.5)
    assert sampler.event(release) == NoOpDpEvent()
    for _ in range(4):
        sampler.draw()
    expected = SelfComposedDpEvent(SampledWithoutReplacementDpEvent(30, 6, release), 4)
    assert sampler.event(release) == expected == fixed_size_event(30, 6, release, 4)
    assert sampler.event(NonPrivateDpEvent()) == NonPrivateDpEvent()


@pytest.mark.parametrize("kind", [PoissonSampler, ShuffleSampler, FixedSizeSampler])
def test_a_restored_sampler_resumes_where_it_was(kind: Kind) -> None:
    first = kind(10, 4, stream())
    for _ in range(4):
        first.draw()
    saved, randomness = first.state_dict(), first.generator.get_state()
    expected = [first.draw().tolist() for _ in range(5)]
    second = kind(10, 4, stream(99))
    second.load_state_dict(saved)
    second.generator.set_state(randomness)
    assert [second.draw().tolist() for _ in range(5)] == expected
    assert second.state_dict().keys() == first.state_dict().keys()
    if isinstance(second, PoissonSampler):
        assert second.event(1.0) == poisson_event(0.4, 1.0, 9)


@pytest.mark.parametrize("kind", [PoissonSampler, ShuffleSampler, FixedSizeSampler])
def test_a_batch_larger_than_the_members_is_refused(kind: Kind) -> None:
    with pytest.raises(SpecError) as caught:
        kind(10, 11, stream())
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 11, (1, 10))


def test_reading_ahead_draws_the_same_batches() -> None:
    """Also in the middle of what was read, and where others see the stream."""
    alone, ahead = PoissonSampler(50, 10, stream()), PoissonSampler(50, 10, stream(), ahead=True)
    for count in (1, 70, 64, 129):
        for _ in range(count):
            assert torch.equal(ahead.draw(), alone.draw())
        ahead.settle()
        assert torch.equal(ahead._generator.get_state(), alone.generator.get_state())
    assert ahead.state_dict() == alone.state_dict()


@pytest.mark.parametrize("other", ["generator", "rate"])
def test_nothing_is_read_ahead_once_the_stream_has_another_user(other: str) -> None:
    alone, ahead = PoissonSampler(50, 10, stream()), PoissonSampler(50, 10, stream(), ahead=True)
    for _ in range(3):
        assert torch.equal(ahead.draw(), alone.draw())
    for _ in range(3):
        if other == "rate":
            assert torch.equal(ahead.draw(0.1), alone.draw(0.1))
        else:
            assert torch.equal(*(torch.rand(5, generator=each.generator) for each in (ahead, alone)))
        assert torch.equal(ahead.draw(), alone.draw())
