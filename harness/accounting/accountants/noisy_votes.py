"""Data-dependent prices of teachers' noisy votes. Not sanitised, so never a headline.

Papernot et al. 2017 (Laplace) and 2018 (Gaussian, confident). All bounds are Rényi divergences at every
order; 2017's moments are alpha(l) = l D_{l+1}.
"""

import math

import numpy as np
from dp_accounting import ComposedDpEvent, DpEvent, NeighboringRelation, SelfComposedDpEvent
from scipy.special import log_ndtr, logsumexp

from harness.accounting.accountants.rdp import convert_classic, divergences, supports_rdp
from harness.accounting.accountants.sphere import Floats
from methods.mechanisms.events import NoisyVotesDpEvent

ORDERS = tuple(range(2, 202))
"""Moments 1 to 200: the 8 of the 2017 script are too few (1.44 instead of 0.26 for unanimous votes)."""


def epsilon_of_votes(event: DpEvent, delta: float, relation: NeighboringRelation) -> float | None:
    """The data-dependent epsilon of a ledger with votes; None if another part has no Rényi price.

    With the classic conversion, as the papers print it.
    """
    total = np.zeros(len(ORDERS))
    for part, count in flatten(event):
        if isinstance(part, NoisyVotesDpEvent):
            total += count * renyi_votes(part)
        elif supports_rdp(part, relation):
            total += count * divergences(part, relation, ORDERS)
        else:
            return None
    return convert_classic(ORDERS, total, delta)


def flatten(event: DpEvent, count: int = 1) -> list[tuple[DpEvent, int]]:
    """The parts of a composition with how often each was run."""
    if isinstance(event, SelfComposedDpEvent):
        return flatten(event.event, count * event.count)
    if isinstance(event, ComposedDpEvent):
        return [each for part in event.events for each in flatten(part, count)]
    return [(event, count)]


def renyi_votes(event: NoisyVotesDpEvent) -> Floats:
    """D_a of all queries at ORDERS, equal rows computed once."""
    answered = event.answered or (True,) * len(event.votes)
    tally: dict[tuple[tuple[int, ...], bool], int] = {}
    for row, passed in zip(event.votes, answered, strict=True):
        tally[(tuple(sorted(row, reverse=True)), passed)] = (
            tally.get((tuple(sorted(row, reverse=True)), passed), 0) + 1
        )
    total = np.zeros(len(ORDERS))
    for (row, passed), times in tally.items():
        total += times * _renyi_query(np.array(row, dtype=np.float64), passed, event)
    return total


def _renyi_query(votes: Floats, passed: bool, event: NoisyVotesDpEvent) -> Floats:
    if event.aggregator == "laplace":
        # The chapter's gamma: one query is (gamma, 0)-DP at scale 2 / gamma.
        return renyi_laplace_vote(math.exp(log_flip_laplace(votes, event.noise)), 2 / event.noise)
    vote = renyi_gaussian_vote(log_flip_gaussian(votes, event.noise), event.noise)
    if event.aggregator == "gaussian":
        return vote
    test = renyi_test(votes.max(), event.threshold, event.threshold_noise)
    return test + vote if passed else test


def log_flip_laplace(votes: Floats, scale: float) -> float:
    """log of a bound on P[the label is not the plurality], by a union over the other labels."""
    gaps = _gaps(votes) / scale
    return min(float(logsumexp(np.log((2 + gaps) / 4) - gaps)), math.log1p(-1 / len(votes)))


def log_flip_gaussian(votes: Floats, deviation: float) -> float:
    """The same for Gaussian noise: the difference of two has deviation sqrt(2) times as large."""
    return min(
        float(logsumexp(log_ndtr(-_gaps(votes) / (math.sqrt(2) * deviation)))), math.log1p(-1 / len(votes))
    )


def _gaps(votes: Floats) -> Floats:
    ordered = np.sort(votes)[::-1]
    return np.asarray(ordered[0] - ordered[1:])


def renyi_laplace_vote(flip: float, gamma: float) -> Floats:
    """Papernot et al. 2017, theorems 2 and 3: the least of three bounds.

    The data-dependent one holds only for flip <= 1 / (1 + e^gamma); the 2017 script tests flip < 0.5.
    """
    moment = np.asarray(ORDERS, dtype=np.float64) - 1
    alpha = np.minimum(moment * gamma, gamma**2 * moment * (moment + 1) / 2)
    if flip <= 1 / (1 + math.exp(gamma)):
        stay = math.log1p(-flip) + moment * (math.log1p(-flip) - math.log1p(-math.exp(gamma) * flip))
        move = (math.log(flip) if flip > 0 else -math.inf) + gamma * moment
        alpha = np.minimum(alpha, np.logaddexp(stay, move))
    return alpha / moment


def renyi_gaussian_vote(log_flip: float, deviation: float) -> Floats:
    """Papernot et al. 2018, theorem 6 with proposition 7's orders, if its conditions hold."""
    orders = np.asarray(ORDERS, dtype=np.float64)
    plain = orders / deviation**2
    if log_flip == -math.inf:
        return np.zeros_like(plain)
    second = deviation * math.sqrt(-log_flip)
    first = second + 1
    at_first, at_second = first / deviation**2, second / deviation**2
    if second <= 1 or -log_flip <= at_second:
        return plain
    limit = (second - 1) * at_second - second * (
        math.log(first / (first - 1)) + math.log(second / (second - 1))
    )
    if log_flip > limit:
        return plain
    stay = math.log1p(-math.exp(log_flip))
    log_a = stay - math.log1p(-math.exp((log_flip + at_second) * (second - 1) / second))
    log_b = at_first - log_flip / (first - 1)
    bound = np.logaddexp(stay + (orders - 1) * log_a, log_flip + (orders - 1) * log_b) / (orders - 1)
    return np.where(orders < first, np.minimum(bound, plain), plain)


def renyi_test(most: float, threshold: float, deviation: float) -> Floats:
    """The threshold test: one count moves by one, so the vote's bound with sqrt(2) times the deviation."""
    passing = log_pass(most, threshold, deviation)
    failing = float(log_ndtr((threshold - most) / deviation))
    return renyi_gaussian_vote(min(passing, failing), math.sqrt(2) * deviation)


def log_pass(most: float, threshold: float, deviation: float) -> float:
    """log P[the largest count with noise reaches the threshold]."""
    return float(log_ndtr((most - threshold) / deviation))
