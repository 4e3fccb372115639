"""The axes of leakage: which there are, which attack and which axis to draw, and the Pareto front."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.report.data import Row

RESOLUTION = 10
"""TPR at FPR f needs n_nonmembers x f of at least this many (RULES 2)."""


@dataclass(frozen=True)
class Leakage:
    """One way to say how much an attack learns; more is worse."""

    column: str
    name: str
    fpr: float | None
    """The false-positive rate of a TPR; None for the AUC."""

    @property
    def chance(self) -> float:
        """What guessing achieves."""
        return 0.5 if self.fpr is None else self.fpr

    @property
    def needs(self) -> int | None:
        """The non-members it takes to resolve it."""
        return None if self.fpr is None else round(RESOLUTION / self.fpr)


TPRS = (
    Leakage("tpr_at_0p01pct", "TPR at 0.01 % FPR", 1e-4),
    Leakage("tpr_at_0p1pct", "TPR at 0.1 % FPR", 1e-3),
    Leakage("tpr_at_1pct", "TPR at 1 % FPR", 1e-2),
    Leakage("tpr_at_10pct", "TPR at 10 % FPR", 1e-1),
)
AUC = Leakage("auc", "AUC", None)


def choose_leakage(rows: Sequence[Row]) -> Leakage:
    """The TPR at the lowest FPR that every row resolves (RULES 1, 2); the AUC where there is none."""
    for leakage in TPRS:
        if rows and all(row[leakage.column] is not None for row in rows):
            return leakage
    return AUC


def name_attack(row: Row, rows: Sequence[Row]) -> str:
    """The attack's name, with its parameters where the rows hold more than one version of it."""
    variants = {
        json.dumps(other["attack_params"], sort_keys=True)
        for other in rows
        if other["attack"] == row["attack"]
    }
    if len(variants) < 2:
        return str(row["attack"])
    params = row["attack_params"] or {}
    return f"{row['attack']} " + " ".join(f"{name}={params[name]}" for name in sorted(params))


def choose_attack(rows: Sequence[Row], leakage: Leakage) -> str:
    """The strongest attack on one group's rows: the highest mean leakage among those on the most cells.

    An attack can be the strongest by AUC and weak at a low FPR, so every axis asks for its own. One
    attack serves all cells of an axis: one that was tried on the leaky cells alone would win
    unfairly. Where nothing resolves the leakage, the AUC decides.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row[leakage.column] is not None:
            found[name_attack(row, rows)].append(row[leakage.column])
    if found:
        return max(sorted(found), key=lambda name: (len(found[name]), fmean(found[name])))
    if leakage is not AUC:
        return choose_attack(rows, AUC)
    return min((name_attack(row, rows) for row in rows), default="")


def find_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The positions of the Pareto-optimal (leakage, accuracy) points; equal points are on it together."""

    def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one != other and one[0] <= other[0] and one[1] >= other[1]

    return [i for i, point in enumerate(points) if not any(beats(other, point) for other in points)]


def rows_on_front(rows: Sequence[Row], leakage: Leakage) -> list[Row]:
    """The front over the rows known to be valid (RULES 14) that resolve it, by rising leakage."""
    able = [
        row
        for row in rows
        if row["valid"] and row["accuracy"] is not None and row[leakage.column] is not None
    ]
    front = find_front([(row[leakage.column], row["accuracy"]) for row in able])
    return sorted((able[i] for i in front), key=lambda row: (row[leakage.column], row["accuracy"]))


def resolved_fpr(row: Row) -> float:
    """The lowest FPR that the row's non-members resolve."""
    return min(0.5, RESOLUTION / max(row["n_nonmembers"] or 1, 1))
