"""Empirical lower bounds on epsilon: how much an adversary's success proves.

Nothing here is an upper bound: a small value means that this adversary proved little, not that a method is
private.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from harness.accounting.group import group_delta

LARGEST = 60.0
"""The largest provable epsilon: e^60 trials are infeasible."""


def many_runs(
    hits: int,
    inside: int,
    alarms: int,
    outside: int,
    delta: float,
    confidence: float = 0.95,
    copies: int = 1,
) -> float:
    """The epsilon refuted by a test of one canary over many training runs (Jagielski et al. 2020).

    Clopper-Pearson limits of both error rates, each at half the level, so that both hold together. The
    threshold must have been fixed on other training runs.

    Args:
        hits: true positives: runs with the canary that were classified as such.
        inside: runs with the canary.
        alarms: false positives: runs without the canary that were classified as having it.
        outside: runs without the canary.
        delta: of the guarantee under test.
        confidence: of the lower bound.
        copies: of the canary in a run; the bound is for one record by group privacy.
    """
    level = (1 - confidence) / 2
    missed, false = upper_limit(inside - hits, inside, level), upper_limit(alarms, outside, level)

    def refuted(epsilon: float) -> bool:
        reach, slack = copies * epsilon, group_delta(epsilon, delta, copies)
        return 1 - missed > math.exp(reach) * false + slack or 1 - false > math.exp(reach) * missed + slack

    return largest(refuted)


def one_run(
    coins: int, guesses: int, right: int, delta: float, confidence: float = 0.95, copies: int = 1
) -> float:
    """The epsilon refuted by guesses about one run's canaries (Steinke et al. 2023, Theorem 5.2).

    Args:
        coins: canaries, each included by an independent fair coin.
        guesses: canaries that the adversary did not abstain on.
        right: correct guesses.
        delta: of the guarantee under test.
        confidence: of the lower bound.
        copies: of each canary; the bound is for one record by group privacy.
    """

    def refuted(epsilon: float) -> bool:
        reach, slack = copies * epsilon, group_delta(epsilon, delta, copies)
        return chance_of(coins, guesses, right, reach, slack) < 1 - confidence

    return largest(refuted)


def chance_of(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of this many correct guesses under (epsilon, delta).

    beta + 2 m delta alpha: a tail of the binomial, and the most that delta can add to it.
    """
    if right == 0:
        return 1.0
    share = 1 / (1 + math.exp(-epsilon))
    # P[guesses right >= v] for v = 0..right: tail[right] is beta.
    tail = stats.binom.sf(np.arange(-1, right), guesses, share)
    beta = float(tail[right])
    steps = np.arange(1, right + 1)
    alpha = float(((tail[right - steps] - beta) / steps).max())
    return min(1.0, beta + 2 * coins * delta * alpha)


def upper_limit(count: int, trials: int, level: float) -> float:
    """The one-sided Clopper-Pearson limit of a rate; 1 without trials."""
    return 1.0 if count >= trials else float(stats.beta.ppf(1 - level, count + 1, trials - count))


def largest(refuted: Callable[[float], bool]) -> float:
    """The supremum of the refuted epsilons, from below, to 1e-9; 0 if none is refuted."""
    low, high = 0.0, LARGEST
    if not refuted(low):
        return 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
