"""The private test of a proposal, what the budget is charged for, and what is counted."""

import math

import pytest
import torch
from dp_accounting import GaussianDpEvent

from harness.accounting import Filter
from methods.dpsur.selection import VERDICTS, Allowance, clip_change, count, passes, rates
from methods.mechanisms.noise import SecureNoise, SeededNoise

DRAWS = 4000
ATTEMPT = GaussianDpEvent(5.0)
FACTS = [  # test noise, beta, P[accept] of a good and of a bad proposal: Phi((beta +- 1) / (2 noise))
    (1.0, 0.0, 0.6914625, 0.3085375),
    (1.0, -1.0, 0.5, 0.1586553),
    (1.0, -2.0, 0.3085375, 0.0668072),
    (0.8, -1.0, 0.5, 0.1056498),
    (0.9, -1.0, 0.5, 0.1332603),
    (1.1, -1.0, 0.5, 0.1816511),
    (1.2, -1.0, 0.5, 0.2023284),
    (1.3, -1.0, 0.5, 0.2208782),
]


def frequency(change: float, bound: float, beta: float, noise: float, seed: int) -> float:
    scale = noise * 2 * bound
    drawn = SeededNoise([torch.zeros(1, dtype=torch.float64)], scale, torch.Generator().manual_seed(seed))
    return sum(passes(change, bound, beta, drawn) for _ in range(DRAWS)) / DRAWS


@pytest.mark.parametrize(("noise", "beta", "good", "bad"), FACTS)
def test_acceptance_probabilities(noise: float, beta: float, good: float, bad: float) -> None:
    """At the ends of the range, within five standard deviations of a frequency."""
    for seed, (change, expected) in enumerate(((-0.7, good), (0.7, bad))):
        found = frequency(change, 0.001, beta, noise, seed)
        assert found == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / DRAWS))


@pytest.mark.parametrize("bound", [1e-12, 1e-3, 10.0])
def test_acceptance_depends_on_the_sign_and_not_on_the_bound(bound: float) -> None:
    assert frequency(-20.0, bound, -1.0, 1.0, 3) == frequency(-20.0, 1.0, -1.0, 1.0, 3)


def test_secure_noise_tests_as_well() -> None:
    """Not seeded, so that seven standard deviations are allowed: less than one wrong alarm in 10^11."""
    accepted = sum(passes(-1.0, 0.001, -1.0, SecureNoise(0.002)) for _ in range(400))
    assert accepted / 400 == pytest.approx(0.5, abs=7 * 0.5 / math.sqrt(400))


@pytest.mark.parametrize(
    ("change", "clipped"),
    [(0.3, 0.3), (-5.0, -1.0), (5.0, 1.0), (math.inf, 1.0), (-math.inf, -1.0), (math.nan, 1.0)],
)
def test_a_change_is_clipped_and_what_is_no_number_is_bad(change: float, clipped: float) -> None:
    assert clip_change(change, 1.0) == clipped


def test_verdicts_separate_good_from_bad() -> None:
    verdicts = dict.fromkeys(VERDICTS, 0)
    for change, accepted in ((-2.0, True), (-1.0, False), (-0.5, True), (3.0, True), (math.nan, False)):
        count(verdicts, change, accepted, 1.0)
    assert rates(verdicts) == {
        "attempts": 5.0,
        "accepted": 3.0,
        "acceptance_rate": 3 / 5,
        "good_share": 2 / 5,
        "good_acceptance_rate": 1 / 2,
        "bad_share": 2 / 5,
        "bad_acceptance_rate": 1 / 2,
    }


def test_what_did_not_occur_has_no_rate() -> None:
    verdicts = dict.fromkeys(VERDICTS, 0)
    count(verdicts, 0.0, True, 1.0)
    assert {"good_acceptance_rate", "bad_acceptance_rate"}.isdisjoint(rates(verdicts))


def allowance(charge: str, overdraws: bool = False) -> Allowance:
    return Allowance(Filter(2.0, 1e-5, ATTEMPT), ATTEMPT, charge, overdraws)


def attempts_until_closed(book: Allowance, accept_every: int) -> tuple[int, int]:
    """Attempts and acceptances if every n-th attempt is accepted."""
    attempts = accepted = 0
    while book.admits():
        attempts += 1
        passed = attempts % accept_every == 0
        accepted += passed
        book.pay(passed)
    return attempts, accepted


def test_all_attempts_are_charged() -> None:
    room = Filter(2.0, 1e-5, ATTEMPT).remaining_uses(ATTEMPT)
    assert room > 3
    assert attempts_until_closed(allowance("all_attempts"), 3) == (room, room // 3)
    assert allowance("all_attempts").most(1000) == room
    assert allowance("all_attempts").most(2) == 2


def test_the_papers_charge_is_for_accepted_attempts() -> None:
    room = Filter(2.0, 1e-5, ATTEMPT).remaining_uses(ATTEMPT)
    assert attempts_until_closed(allowance("paper"), 3) == (3 * room, room)
    assert allowance("paper").most(1000) == 1000


@pytest.mark.parametrize(("accept_every", "late"), [(1, 1), (3, 0)])
def test_the_official_code_makes_one_attempt_too_many(accept_every: int, late: int) -> None:
    room = Filter(2.0, 1e-5, ATTEMPT).remaining_uses(ATTEMPT)
    book = allowance("paper", overdraws=True)
    assert attempts_until_closed(book, accept_every) == (accept_every * room + 1, room + late)


def test_an_allowance_resumes_from_its_state() -> None:
    book, other = allowance("paper", overdraws=True), allowance("paper", overdraws=True)
    attempts_until_closed(book, 1)
    other.load_state_dict(book.state_dict())
    assert not other.admits()
