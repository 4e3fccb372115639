"""PATE's aggregators: labels from noisy counts of the teachers' votes, and their DP events."""

from dataclasses import dataclass
from typing import Literal

import torch
from dp_accounting import DpEvent
from torch import Tensor

from methods.base import Norm
from methods.mechanisms.draws import gaussian, laplace
from methods.mechanisms.events import NoisyVotesDpEvent

AggregatorName = Literal["lnmax", "gnmax", "confident-gnmax"]
KINDS: dict[AggregatorName, str] = {
    "lnmax": "laplace",
    "gnmax": "gaussian",
    "confident-gnmax": "confident",
}
"""The ledger's names by the papers' names."""
NO_ANSWER = -1


@dataclass(frozen=True)
class Aggregator:
    """The noisy plurality of votes (Papernot et al. 2017 for Laplace noise, 2018 for Gaussian).

    One record is in one teacher's shard and can change one vote, so two counts change by one.
    """

    name: AggregatorName
    noise: float
    """The Laplace scale, or the Gaussian's standard deviation, on every count."""
    threshold: float = 0.0
    """Confident: the noisy maximum count needed to answer a query."""
    threshold_noise: float = 0.0
    """Confident: the standard deviation of that noise."""
    most_answers: int | None = None
    """Confident: the maximum number of answers."""

    def answer(self, votes: Tensor, generator: torch.Generator) -> Tensor:
        """(Q, classes) counts to (Q,) labels, or NO_ANSWER.

        All tests come before all answers. Which queries are answered then depends only on released tests, and
        their number is bounded in advance: ordinary adaptive composition applies.
        """
        counts = votes.double()
        answered = self.test(counts, generator)
        drawn = laplace if self.name == "lnmax" else gaussian
        labels = (counts + self.noise * drawn(counts.shape, generator)).argmax(1)
        return torch.where(answered, labels, NO_ANSWER)

    def test(self, counts: Tensor, generator: torch.Generator) -> Tensor:
        """(Q,): which queries are answered; all unless the aggregator is confident."""
        if self.name != "confident-gnmax":
            return torch.ones(len(counts), dtype=torch.bool, device=counts.device)
        most = counts.amax(1)
        passed = most + self.threshold_noise * gaussian(most.shape, generator) >= self.threshold
        return passed & (passed.cumsum(0) <= self.limit(len(counts)))

    def limit(self, queries: int) -> int:
        """The maximum number of answers to this many queries."""
        return queries if self.most_answers is None else min(self.most_answers, queries)

    @property
    def influence(self) -> tuple[Norm, float]:
        """The norm of the noise, and the sensitivity of a query's counts in it."""
        return ("l1", 2.0) if self.name == "lnmax" else ("l2", 2**0.5)

    def event(self, votes: Tensor, labels: Tensor) -> DpEvent:
        """The DP event of the answers, with the actual votes."""
        rows = tuple(tuple(row) for row in votes.tolist())
        return self._event(rows, tuple((labels != NO_ANSWER).tolist()))

    def planned(self, queries: int) -> DpEvent:
        """The DP event of answers to this many queries, for any votes."""
        return self._event(((0, 0),) * queries, ())

    def _event(self, rows: tuple[tuple[int, ...], ...], answered: tuple[bool, ...]) -> DpEvent:
        if self.name != "confident-gnmax":
            return NoisyVotesDpEvent(rows, KINDS[self.name], self.noise)
        test = (self.threshold, self.threshold_noise)
        return NoisyVotesDpEvent(rows, KINDS[self.name], self.noise, *test, answered, self.limit(len(rows)))


def count_votes(answers: Tensor, classes: int) -> Tensor:
    """(teachers, Q) labels to (Q, classes) counts."""
    return torch.stack([(answers == label).sum(0) for label in range(classes)], dim=1)
