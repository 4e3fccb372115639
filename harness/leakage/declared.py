"""The declared attacks on what models answered, in arrays: a cell can be scored anew with fewer models."""

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
class Answers:
    """What M models answered about n records of the pool and p others."""

    logits: NDArray[np.float32]
    labels: Ints
    members: Bools
    evaluated: Bools
    """(M, n): False for members that a method set aside."""
    population_logits: NDArray[np.float32]
    population_labels: Ints

    @classmethod
    def of(cls, signals: Mapping[str, NDArray[Any]]) -> Self:
        """From the signals of trainings, one above the other."""
        members = signals["members"]
        aside = signals.get("set_aside", np.zeros_like(members))
        records, others = signals["labels"][0], signals["test_labels"][0]
        return cls(signals["logits"], records, members, ~aside, signals["test_logits"], others)

    def only(self, models: slice) -> Self:
        """Of these models alone."""
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
        """(M, p): whether each model is right about each of the others."""
        right: Bools = self.population_logits.argmax(axis=2) == self.population_labels
        return right


def score_declared(answers: Answers) -> dict[str, Floats]:
    """(M, n) scores of each declared attack with its default parameters; every model is a target."""
    phi = rescaled_logit(answers.logits, answers.labels)
    included, excluded = answers.members & answers.evaluated, ~answers.members & answers.evaluated
    soft = rescaled_logit(answers.logits, answers.labels, TEMPERATURE)
    others = rescaled_logit(answers.population_logits, answers.population_labels, TEMPERATURE)
    return {
        "loss": loss(phi),
        "lira": lira_bayes(phi, included, excluded),
        "rmia": rmia(soft, included, excluded, others),
    }


def score_strongest(answers: Answers) -> dict[str, NDArray[Any]]:
    """What attack `strongest` keeps of these models: scores of each attack, and those by halves."""
    kept: dict[str, NDArray[Any]] = {"members": answers.members}
    if not answers.evaluated.all():
        kept["set_aside"] = ~answers.evaluated
    kept |= {f"scores/{name}": each for name, each in score_declared(answers).items()}
    models = len(answers.members)
    if models >= HALVED:
        by_record = [name for name, dependence in FAMILY.items() if dependence == "record"]
        kept |= {f"half/{name}": np.empty(answers.members.shape) for name in by_record}
        for half in halves(models):
            scores = score_declared(answers.only(half))
            for name in by_record:
                kept[f"half/{name}"][half] = scores[name]
    return kept
