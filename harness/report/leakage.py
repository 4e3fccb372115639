"""The axes of leakage: which there are, which attack and which axis to draw, and the rows on the front."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.report.pareto import Box, find_front, find_near_front
from harness.report.reading import Row

RESOLUTION = 10
"""TPR at FPR f needs n_nonmembers x f of at least this many (docs/rules.md: resolution guard)."""


@dataclass(frozen=True)
class Leakage:
    """One way to say how much an attack learns; more is worse."""

    column: str
    name: str
    fpr: float | None
    """The false-positive rate of a TPR; None for the AUC."""

    @property
    def mixes(self) -> bool:
        """Whether a model drawn at random leaks the mean of what each does (see harness.report.pareto)."""
        return self.column == "auc"

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
    """The TPR at the lowest FPR that every row resolves; the AUC where there is none.

    See docs/rules.md: low false-positive rates, resolution guard.
    """
    for leakage in TPRS:
        if rows and all(row[leakage.column] is not None for row in rows):
            return leakage
    return AUC


def name_attack(row: Row, rows: Sequence[Row]) -> str:
    """The attack's name, with its parameters where the rows hold more than one version of it."""
    return _named(row, _versions([other for other in rows if other["attack"] == row["attack"]]))


def name_attacks(rows: Sequence[Row]) -> list[str]:
    """The same for each of the rows, among all of them."""
    versions = _versions(rows)
    return [_named(row, versions) for row in rows]


def _versions(rows: Sequence[Row]) -> dict[str, set[str]]:
    """The parameters that each attack was tried with."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["attack"]].add(json.dumps(row["attack_params"], sort_keys=True))
    return found


def _named(row: Row, versions: Mapping[str, set[str]]) -> str:
    if len(versions[row["attack"]]) < 2:
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
    names = name_attacks(rows)
    for name, row in zip(names, rows, strict=True):
        if row[leakage.column] is not None:
            found[name].append(row[leakage.column])
    if found:
        return max(sorted(found), key=lambda name: (len(found[name]), fmean(found[name])))
    if leakage is not AUC:
        return choose_attack(rows, AUC)
    return min(names, default="")


def able_rows(rows: Sequence[Row], leakage: Leakage) -> list[Row]:
    """Rows known to be valid (docs/rules.md: blind check) that have an accuracy and resolve the leakage."""
    return [
        row
        for row in rows
        if row["valid"] and row["accuracy"] is not None and row[leakage.column] is not None
    ]


def rows_on_front(rows: Sequence[Row], leakage: Leakage) -> list[Row]:
    """The front over the rows that are able, by rising leakage."""
    able = able_rows(rows, leakage)
    front = find_front([(row[leakage.column], row["accuracy"]) for row in able])
    return sorted((able[i] for i in front), key=lambda row: (row[leakage.column], row["accuracy"]))


def rows_near_front(rows: Sequence[Row], leakage: Leakage) -> list[Row]:
    """The rows off the front that their intervals do not tell from it."""
    able = able_rows(rows, leakage)
    return [able[i] for i in find_near_front([as_box(row, leakage) for row in able])]


def as_box(row: Row, leakage: Leakage) -> Box:
    """A row as a point with intervals."""
    return Box(interval(row, leakage.column), interval(row, "accuracy"))


def interval(row: Row, column: str) -> tuple[float, float, float]:
    """Low end, value and high end of a column; the value itself where an end is not known (one model)."""
    value = row[column]
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    return (value if low is None else low, value, value if high is None else high)


def resolved_fpr(row: Row) -> float:
    """The lowest FPR that the row's non-members resolve."""
    return min(0.5, RESOLUTION / max(row["n_nonmembers"] or 1, 1))
