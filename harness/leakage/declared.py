"""The declared attacks on stored logits: a cell can be rescored with fewer models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harness.leakage.candidates import FAMILY
from harness.leakage.intervals import HALVED, halves
from harness.leakage.matrices import Bools, Floats, Ints
from harness.leakage.scoring import lira_bayes, loss, rescaled_logit, rmia

TEMPERATURE = 2.0
"""Of the probabilities that `rmia` compares, by default."""


@dataclass(frozen=True)
class Signals:
    """The logits of M models on n records of the pool and p others."""

    logits: NDArray[np.float32]
    labels: Ints
    members: Bools
    evaluated: Bools
    """(M, n): False for members that a method set aside."""
    population_logits: NDArray[np.float32]
    population_labels: Ints

    @classmethod
    def of(cls, signals: Mapping[str, NDArray[Any]]) -> Self:
        """From the stacked signals of training runs."""
        members = signals["members"]
        aside = signals.get("set_aside", np.zeros_like(members))
        records, others = signals["labels"][0], signals["test_labels"][0]
        return cls(signals["logits"], records, members, ~aside, signals["test_logits"], others)

    def only(self, models: slice) -> Self:
        """The signals of these models only."""
        return type(self)(
            self.logits[models],
            self.labels,
            self.members[models],
            self.evaluated[models],
            self.population_logits[models],
            self.population_labels,
        )

    @property
    def correct(self) -> Bools:
        """(M, p): whether each model's prediction is right on each of the others."""
        right: Bools = self.population_logits.argmax(axis=2) == self.population_labels
        return right


def score_declared(signals: Signals) -> dict[str, Floats]:
    """(M, n) scores of each declared attack with its default parameters; every model is a target."""
    phi = rescaled_logit(signals.logits, signals.labels)
    included, excluded = signals.members & signals.evaluated, ~signals.members & signals.evaluated
    soft = rescaled_logit(signals.logits, signals.labels, TEMPERATURE)
    others = rescaled_logit(signals.population_logits, signals.population_labels, TEMPERATURE)
    return {
        "loss": loss(phi),
        "lira": lira_bayes(phi, included, excluded),
        "rmia": rmia(soft, included, excluded, others),
    }


def score_strongest(signals: Signals) -> dict[str, NDArray[Any]]:
    """The scores that attack `strongest` stores: of each attack, and by halves."""
    kept: dict[str, NDArray[Any]] = {"members": signals.members}
    if not signals.evaluated.all():
        kept["set_aside"] = ~signals.evaluated
    kept |= {f"scores/{name}": each for name, each in score_declared(signals).items()}
    models = len(signals.members)
    if models >= HALVED:
        by_record = [name for name, dependence in FAMILY.items() if dependence == "record"]
        kept |= {f"half/{name}": np.empty(signals.members.shape) for name in by_record}
        for half in halves(models):
            scores = score_declared(signals.only(half))
            for name in by_record:
                kept[f"half/{name}"][half] = scores[name]
    return kept
