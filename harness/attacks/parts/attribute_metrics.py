"""Attribute inference: what an attack hands over, and how the harness judges it."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from harness.attacks.base import Attacker, Bools, Evidence
from harness.leakage.influence import Scored, mean_gap
from harness.leakage.intervals import linear, variance

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Guesses:
    """The sensitive value of every record, as the number of one of the attribute's values."""

    attribute: str
    """Its name."""
    truth: Ints
    """(n,)"""
    guessed: Ints
    """(M, n): by the attack on each target."""
    imputed: Ints
    """(n,): by somebody who knows the other columns and the label, and public records, but no model."""
    prior: float
    """The share of the most common value among public records."""


@runtime_checkable
class Inference(Attacker, Protocol):
    """Guesses a column of a record from the rest of it and a model."""

    def guesses(self, evidence: Evidence, params: Any) -> Guesses:
        """Row m may ask model m but not know `members[m]`."""
        ...


@dataclass(frozen=True)
class Inferred:
    """How often guesses are right, over all targets of a cell.

    What a model tells about everybody is no leak of a member's record: an advantage over imputation that
    non-members have as well is what the model has learnt. Differential privacy bounds `gap` alone.
    """

    attribute: str
    n_members: int
    n_nonmembers: int
    """Pooled: (record, target) pairs."""
    prior: float
    accuracy_members: float
    accuracy_nonmembers: float
    imputation_members: float
    imputation_nonmembers: float
    advantage_members: float
    """Accuracy less that of the imputation, on members."""
    advantage_nonmembers: float
    gap: float
    """The advantage on members less that on non-members, the mean over targets."""
    gap_low: float
    gap_high: float
    gap_interval: str
    """How the interval was made: over `targets`, or over the `records` of one."""


def evaluate(guesses: Guesses, members: Bools, people: int, evaluated: Bools | None = None) -> Inferred:
    """Judge guesses about the first `people` records; BenchError where a target has no members among them, or
    nobody else. `evaluated` is False for members that their method set aside."""
    members = members[:, :people]
    attacked = (guesses.guessed == guesses.truth)[:, :people].astype(np.float64)
    imputed = np.broadcast_to((guesses.imputed == guesses.truth)[:people].astype(np.float64), attacked.shape)
    scored = Scored(attacked, members, None if evaluated is None else evaluated[:, :people])
    scored.check()
    included, excluded = scored.included, scored.excluded
    gained = attacked - imputed
    gap = mean_gap(gained, scored)
    # Targets share two moments of the other models' members at most, and the imputation cancels in the gap.
    error = variance(gap.values, "alone") ** 0.5
    low, high = linear(gap.value, error, len(members), (-1.0, 1.0))
    return Inferred(
        attribute=guesses.attribute,
        n_members=int(included.sum()),
        n_nonmembers=int(excluded.sum()),
        prior=guesses.prior,
        accuracy_members=float(attacked[included].mean()),
        accuracy_nonmembers=float(attacked[excluded].mean()),
        imputation_members=float(imputed[included].mean()),
        imputation_nonmembers=float(imputed[excluded].mean()),
        advantage_members=float(gained[included].mean()),
        advantage_nonmembers=float(gained[excluded].mean()),
        gap=gap.value,
        gap_low=low,
        gap_high=high,
        gap_interval="targets" if len(members) > 1 else "records",
    )
