"""PATE's aggregators: labels from noisy counts of teachers' votes, by the object that writes their ledger."""

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
"""By the papers' names to the ledger's."""
NO_ANSWER = -1


@dataclass(frozen=True)
class Aggregator:
    """The noisy plurality of votes (Papernot et al. 2017 for Laplace noise, 2018 for Gaussian).

    One record is in one teacher's shard and moves one vote, so two counts change by one.
    """

    name: AggregatorName
    noise: float
    """The Laplace scale, or the Gaussian's standard deviation, on every count."""
    threshold: float = 0.0
    """Confident: what the largest count, with noise, must reach for the query to be answered."""
    threshold_noise: float = 0.0
    """Confident: the standard deviation of that noise."""
    most_answers: int | None = None
    """Confident: answers after which no query is answered any more."""

    def answer(self, votes: Tensor, generator: torch.Generator) -> Tensor:
        """(Q, classes) counts to (Q,) labels, NO_ANSWER where there is none.

        All tests come before all answers. Which queries are answered then depends on released tests alone,
        and their number is bounded beforehand: ordinary adaptive composition prices it.
        """
        counts = votes.double()
        answered = self.test(counts, generator)
        drawn = laplace if self.name == "lnmax" else gaussian
        labels = (counts + self.noise * drawn(counts.shape, generator)).argmax(1)
        return torch.where(answered, labels, NO_ANSWER)

    def test(self, counts: Tensor, generator: torch.Generator) -> Tensor:
        """(Q,): which queries are answered; all of them unless the aggregator is confident."""
        if self.name != "confident-gnmax":
            return torch.ones(len(counts), dtype=torch.bool, device=counts.device)
        most = counts.amax(1)
        passed = most + self.threshold_noise * gaussian(most.shape, generator) >= self.threshold
        return passed & (passed.cumsum(0) <= self.limit(len(counts)))

    def limit(self, queries: int) -> int:
        """How many of the queries may be answered."""
        return queries if self.most_answers is None else min(self.most_answers, queries)

    @property
    def influence(self) -> tuple[Norm, float]:
        """The norm of the noise, and by how much one moved vote changes the counts of a query in it."""
        return ("l1", 2.0) if self.name == "lnmax" else ("l2", 2**0.5)

    def event(self, votes: Tensor, labels: Tensor) -> DpEvent:
        """What the answers cost, with the votes as they fell."""
        rows = tuple(tuple(row) for row in votes.tolist())
        return self._event(rows, tuple((labels != NO_ANSWER).tolist()))

    def planned(self, queries: int) -> DpEvent:
        """What answers to so many queries will cost, whatever the votes."""
        return self._event(((0, 0),) * queries, ())

    def _event(self, rows: tuple[tuple[int, ...], ...], answered: tuple[bool, ...]) -> DpEvent:
        if self.name != "confident-gnmax":
            return NoisyVotesDpEvent(rows, KINDS[self.name], self.noise)
        test = (self.threshold, self.threshold_noise)
        return NoisyVotesDpEvent(rows, KINDS[self.name], self.noise, *test, answered, self.limit(len(rows)))


def count_votes(answers: Tensor, classes: int) -> Tensor:
    """(teachers, Q) labels to (Q, classes) counts."""
    return torch.stack([(answers == label).sum(0) for label in range(classes)], dim=1)
