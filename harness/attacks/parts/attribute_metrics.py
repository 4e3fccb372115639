"""Attribute inference: the output of an attack, and its evaluation by the harness."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from harness.attacks.base import Attacker, Bools, Evidence
from harness.leakage.influence import Scored, mean_gap
from harness.leakage.intervals import linear, variance

Ints = NDArray[np.int64]

NOTHING_SENSITIVE = (
    "attribute inference needs a workload that declares a sensitive attribute; this one does not: "
    "take a tabular one (location30-*, purchase100-*, tabular-synthetic) or declare `sensitive`"
)


@dataclass(frozen=True)
class Guesses:
    """The sensitive value of every record, as an index into the attribute's values."""

    attribute: str
    """Its name."""
    truth: Ints
    """(n,)"""
    guessed: Ints
    """(M, n): by the attack on each target."""
    imputed: Ints
    """(n,): imputed from the other columns, the label and public records, without any model."""
    prior: float
    """The share of the most common value among public records."""


@runtime_checkable
class Inference(Attacker, Protocol):
    """Infers a column of a record from the rest of it and a model."""

    def guesses(self, evidence: Evidence, params: Any) -> Guesses:
        """Row m may query model m but not read `members[m]`."""
        ...


@dataclass(frozen=True)
class Inferred:
    """The accuracy of the guesses, over all targets of a cell.

    What a model reveals about the distribution is no leak of a member's record: an advantage over imputation
    on non-members as well is what the model has learnt. Differential privacy bounds `gap` only.
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
    """Accuracy minus that of the imputation, on members."""
    advantage_nonmembers: float
    gap: float
    """The advantage on members minus that on non-members, the mean over targets."""
    gap_low: float
    gap_high: float
    gap_interval: str
    """The basis of the interval: over `targets`, or over the `records` of one."""


def evaluate(guesses: Guesses, members: Bools, records: int, evaluated: Bools | None = None) -> Inferred:
    """Evaluate guesses about the first `records` records; BenchError if a target has no members or no
    non-members among them. `evaluated` is False for members that their method set aside."""
    members = members[:, :records]
    attacked = (guesses.guessed == guesses.truth)[:, :records].astype(np.float64)
    imputed = np.broadcast_to((guesses.imputed == guesses.truth)[:records].astype(np.float64), attacked.shape)
    scored = Scored(attacked, members, None if evaluated is None else evaluated[:, :records])
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
