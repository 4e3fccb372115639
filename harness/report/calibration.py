"""Methods at equal measured leakage: the accuracy of each under a cap on leakage.

Epsilons of different kinds cannot be compared, and some methods have none (docs/rules.md: kinds do not mix).
Measured leakage can: each method's cells are points (leakage, accuracy), and its front is what it offers.
Between two cells it offers the less leaky one, and by AUC also a random choice of the two; why not by the TPR
is in harness.leakage.pareto. Beyond its leakiest cell a method offers that cell; below its least leaky one it
offers nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.leakage.pareto import find_offer
from harness.report.leakage import (
    AUC,
    SELECTED_BY,
    Leakage,
    choose_attack,
    choose_leakage,
    drawn_by,
    rows_on_front,
)
from harness.report.reading import Row, name_groups
from harness.report.tables import TextTable
from harness.report.tuning.budgets import is_shown

NEARNESS = Leakage("nearness", "closeness of reconstructed pictures (minus their MSE)", None)
"""The success of an inversion: more is worse, as on the other axes."""
LEVELS = 6
"""Levels of leakage in a table, at most."""


@dataclass(frozen=True)
class Offer:
    """The accuracy of a method under a cap on leakage."""

    accuracy: float
    low: float | None
    """Ends of the interval over models; None if a cell has a single model."""
    high: float | None
    mixed: bool
    """Whether it is a random choice between two cells."""


@dataclass(frozen=True)
class Curve:
    """A method's front under one attack, sorted by leakage."""

    method: str
    leakage: Leakage
    rows: tuple[Row, ...]

    def at(self, level: float) -> Offer | None:
        """The accuracy at no more than this leakage; None if even its least leaky cell leaks more."""
        front = [(row[self.leakage.column], row[SELECTED_BY]) for row in self.rows]
        found = find_offer(front, level, self.leakage.mixes)
        if found is None:
            return None
        return _between(self.rows[found.left], self.rows[found.right], found.share)


@dataclass(frozen=True)
class Calibration:
    """One group of cells on one axis of leakage."""

    group: str
    leakage: Leakage
    attack: str
    rows: tuple[Row, ...]
    """All cells under the attack, on a front or not."""
    curves: tuple[Curve, ...]

    def levels(self) -> list[float]:
        """Leakages at which methods are compared: those of the cells, evenly thinned."""
        found = sorted({row[self.leakage.column] for curve in self.curves for row in curve.rows})
        if len(found) <= LEVELS:
            return found
        steps = (len(found) - 1) / (LEVELS - 1)
        return [found[round(place * steps)] for place in range(LEVELS)]


def calibrate(rows: Sequence[Row], attack: str | None = None, fpr: float | None = None) -> list[Calibration]:
    """For every group the TPR at a low FPR, and the AUC; of the given attack, else of the strongest."""
    found = []
    for group in sorted({row["group"] for row in rows}):
        own = [row for row in rows if row["group"] == group and is_shown(row)]
        for leakage in dict.fromkeys((choose_leakage(drawn_by(own, attack), fpr), AUC)):
            found.append(_calibration(group, own, leakage, attack))
    return found


def calibrate_pictures(rows: Sequence[Row]) -> list[Calibration]:
    """The same for rows of the view `reconstruction`: methods at equal error of reconstructed pictures."""
    known = {"valid": True, "chosen": True, "accuracy_low": None, "accuracy_high": None}
    near = [{**row, **known, "nearness": -row["mse_median"]} for row in rows if row["mse_median"] is not None]
    name_groups(near)
    groups = sorted({row["group"] for row in near})
    return [
        _calibration(f"{group}, pictures", [row for row in near if row["group"] == group], NEARNESS)
        for group in groups
    ]


def _calibration(group: str, rows: Sequence[Row], leakage: Leakage, asked: str | None = None) -> Calibration:
    attack, tried = choose_attack(rows, asked), drawn_by(rows, asked)
    curves = []
    for method in sorted({row["method"] for row in tried}):
        front = rows_on_front([row for row in tried if row["method"] == method], leakage)
        if front:
            curves.append(Curve(method, leakage, tuple(front)))
    return Calibration(group, leakage, attack, tuple(tried), tuple(curves))


def _between(left: Row, right: Row, share: float) -> Offer:
    def mix(column: str) -> float | None:
        if left[column] is None or right[column] is None:
            return None
        return float((1 - share) * left[column] + share * right[column])

    accuracy = mix("accuracy")
    if accuracy is None:
        raise ValueError("a cell of a front has an accuracy")
    return Offer(accuracy, mix("accuracy_low"), mix("accuracy_high"), mixed=share > 0)


def calibration_tables(found: Sequence[Calibration], query: str) -> list[TextTable]:
    """For every group and axis: a row per level, a column per method."""
    tables = []
    for each in found:
        lines = []
        for level in each.levels():
            offers = [curve.at(level) for curve in each.curves]
            lines.append((_level(level, each.leakage), *map(_describe, offers)))
        tables.append(
            TextTable(
                name="calibration",
                title=f"{each.group}: accuracy at equal {each.leakage.name}, attack {each.attack}",
                columns=(f"{each.leakage.name} at most", *(curve.method for curve in each.curves)),
                rows=tuple(lines),
                protocol=NOTES,
                heading="How to read it",
                counts=f"{len(each.rows)} cells, {len(each.curves)} methods.",
                query=query,
            )
        )
    return tables


NOTES = (
    "A method's best cell at this leakage or less, chosen by accuracy on "
    "non-members; - if every cell leaks more.",
    "By AUC, ~ marks a random choice between models of two cells: its mean accuracy and AUC are on the "
    "line between them. By TPR they are not: an attacker who sees the model uses false positives better.",
    "Intervals are 95 %, over the models of a cell, and are mixed like accuracies; leakage is as measured.",
    "A measured leakage is a lower bound: a stronger attack may rank methods differently.",
)


def _level(level: float, leakage: Leakage) -> str:
    if leakage is NEARNESS:
        return f"MSE at least {-level:.4f}"
    return f"{level:.3f}" if leakage is AUC else f"{100 * level:.2f} %"


def _describe(offer: Offer | None) -> str:
    if offer is None:
        return "-"
    sign = "~" if offer.mixed else ""
    band = "" if offer.low is None else f" [{100 * offer.low:.1f}, {100 * (offer.high or 0):.1f}]"
    return f"{sign}{100 * offer.accuracy:.1f} %{band}"
