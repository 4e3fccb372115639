"""The axes of leakage, the choice of attack and axis to draw, and the rows on the front."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.leakage.pareto import Box, find_front, find_near_front
from harness.report.reading import Row
from workloads.errors import SpecError

RESOLUTION = 10
"""TPR at FPR f needs n_nonmembers x f of at least this many (docs/rules.md: resolution guard)."""
STRONGEST = "strongest"
"""The attack that is the strongest of the declared family, cell by cell."""
PREFERRED = ("lira", "rmia", "reference", "loss")
"""Attacks to draw by if a group lacks STRONGEST: an order fixed beforehand."""
SELECTED_BY = "validation_accuracy"
"""The column that fronts and offers are selected by; test accuracy is only reported."""


@dataclass(frozen=True)
class Leakage:
    """One measure of leakage; more is worse."""

    column: str
    name: str
    fpr: float | None
    """The false-positive rate of a TPR; None for the AUC."""

    @property
    def mixes(self) -> bool:
        """Whether a randomly chosen model leaks the mean of both (see harness.leakage.pareto)."""
        return self.column == "auc"

    @property
    def chance(self) -> float:
        """The value of random guessing."""
        return 0.5 if self.fpr is None else self.fpr

    @property
    def needs(self) -> int | None:
        """The number of non-members that resolves it."""
        return None if self.fpr is None else round(RESOLUTION / self.fpr)


TPRS = (
    Leakage("tpr_at_0p01pct", "TPR at 0.01 % FPR", 1e-4),
    Leakage("tpr_at_0p1pct", "TPR at 0.1 % FPR", 1e-3),
    Leakage("tpr_at_1pct", "TPR at 1 % FPR", 1e-2),
    Leakage("tpr_at_10pct", "TPR at 10 % FPR", 1e-1),
)
AUC = Leakage("auc", "AUC", None)


def choose_leakage(rows: Sequence[Row], fpr: float | None = None) -> Leakage:
    """The TPR at 1 % FPR if every row resolves it, else at 10 %; the AUC if neither is resolved.

    `fpr` selects another rate; a row that does not resolve it is then left out of the panel.
    """
    if fpr is not None:
        return find_tpr(fpr)
    for leakage in (find_tpr(0.01), find_tpr(0.1)):
        if rows and all(row[leakage.column] is not None for row in rows):
            return leakage
    return AUC


def find_tpr(fpr: float) -> Leakage:
    """The axis of the TPR at this FPR; SpecError for a rate that no column has."""
    for leakage in TPRS:
        if leakage.fpr == fpr:
            return leakage
    rates = ", ".join(f"{each.fpr:g}" for each in TPRS)
    message = f"there is no TPR at an FPR of {fpr:g}: give one of {rates}"
    raise SpecError(message, field="fpr", value=fpr, allowed=tuple(each.fpr for each in TPRS))


def name_attack(row: Row, rows: Sequence[Row]) -> str:
    """The attack's name, with its parameters if the rows hold more than one version of it."""
    return _named(row, _versions([other for other in rows if other["attack"] == row["attack"]]))


def name_attacks(rows: Sequence[Row]) -> list[str]:
    """The same for each of the rows, among all of them."""
    versions = _versions(rows)
    return [_named(row, versions) for row in rows]


def _versions(rows: Sequence[Row]) -> dict[str, set[str]]:
    """The parameters that each attack was run with."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["attack"]].add(json.dumps(row["attack_params"], sort_keys=True))
    return found


def _named(row: Row, versions: Mapping[str, set[str]]) -> str:
    if len(versions[row["attack"]]) < 2:
        return str(row["attack"])
    params = row["attack_params"] or {}
    return f"{row['attack']} " + " ".join(f"{name}={params[name]}" for name in sorted(params))


def choose_attack(rows: Sequence[Row], asked: str | None = None) -> str:
    """The attack whose rows a group is drawn by: the given one, else `strongest`.

    `strongest` is chosen cell by cell, for each target on other models (docs/rules.md: strongest declared
    attack). If a group has no such row, it is the first of PREFERRED among the attacks on the most cells:
    never chosen by its results.
    """
    counts = Counter(name_attacks(rows))
    if asked is not None:
        return min((name for name in counts if name.partition(" ")[0] == asked), default=asked)
    if STRONGEST in counts:
        return STRONGEST
    most = max(counts.values(), default=0)
    able = [name for name, count in counts.items() if count == most]
    preferred = {name: place for place, name in enumerate(PREFERRED)}
    return min(able, key=lambda name: (preferred.get(name, len(preferred)), name), default="")


def drawn_by(rows: Sequence[Row], asked: str | None = None) -> list[Row]:
    """The rows of the attack that a group is drawn by."""
    attack = choose_attack(rows, asked)
    return [row for name, row in zip(name_attacks(rows), rows, strict=True) if name == attack]


def able_rows(rows: Sequence[Row], leakage: Leakage) -> list[Row]:
    """The rows that compete: known to be valid, chosen among their configurations, with both accuracies and a
    resolved leakage (docs/rules.md: blind check, no selection on test data)."""
    needed = ("accuracy", SELECTED_BY, leakage.column)
    return [
        row
        for row in rows
        if row["valid"] and row["chosen"] and all(row[name] is not None for name in needed)
    ]


def rows_on_front(rows: Sequence[Row], leakage: Leakage) -> list[Row]:
    """The front over the rows that compete, sorted by leakage; selected by validation accuracy."""
    able = able_rows(rows, leakage)
    front = find_front([(row[leakage.column], row[SELECTED_BY]) for row in able])
    return sorted((able[i] for i in front), key=lambda row: (row[leakage.column], row[SELECTED_BY]))


def rows_near_front(rows: Sequence[Row], leakage: Leakage) -> list[Row]:
    """The rows off the front that are indistinguishable from it by their intervals."""
    able = able_rows(rows, leakage)
    return [able[i] for i in find_near_front([as_box(row, leakage, SELECTED_BY) for row in able])]


def as_box(row: Row, leakage: Leakage, accuracy: str = "accuracy") -> Box:
    """A row as a point with intervals."""
    return Box(interval(row, leakage.column), interval(row, accuracy))


def interval(row: Row, column: str) -> tuple[float, float, float]:
    """Low end, value and high end of a column; the value itself if an end is unknown (one model)."""
    value = row[column]
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    return (value if low is None else low, value, value if high is None else high)


def resolved_fpr(row: Row) -> float:
    """The lowest FPR that the row's non-members resolve."""
    return min(0.5, RESOLUTION / max(row["n_nonmembers"] or 1, 1))
