"""Methods at equal measured leakage: how accurate each is where an attack learns no more than so much.

Epsilons of different kinds cannot be compared, and some methods have none (docs/rules.md: kinds do not mix).
What an attack finds can: each method's cells are points (leakage, accuracy), and its front is what it offers.
Between two cells it offers what the less leaky one does, and by AUC also a model of either drawn at random;
why not by the TPR is in harness.leakage.pareto. Beyond its leakiest cell a method offers what that cell does;
below its least leaky one it offers nothing.
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

NEARNESS = Leakage("nearness", "nearness of rebuilt pictures (minus their MSE)", None)
"""What an inversion achieves, so that more is worse, as on the other axes."""
LEVELS = 6
"""At most so many levels of leakage in a table."""


@dataclass(frozen=True)
class Offer:
    """What a method offers at a level of leakage."""

    accuracy: float
    low: float | None
    """Ends of the interval over models; None where a cell has one model only."""
    high: float | None
    mixed: bool
    """Whether it takes a random choice between two cells."""


@dataclass(frozen=True)
class Curve:
    """A method's front under one attack, by rising leakage."""

    method: str
    leakage: Leakage
    rows: tuple[Row, ...]

    def at(self, level: float) -> Offer | None:
        """The accuracy at no more than this leakage; None where even its least leaky cell leaks more."""
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
    """All cells that the attack was tried on, on a front or not."""
    curves: tuple[Curve, ...]

    def levels(self) -> list[float]:
        """Leakages at which methods are compared: those of the cells, thinned evenly to a few."""
        found = sorted({row[self.leakage.column] for curve in self.curves for row in curve.rows})
        if len(found) <= LEVELS:
            return found
        steps = (len(found) - 1) / (LEVELS - 1)
        return [found[round(place * steps)] for place in range(LEVELS)]


def calibrate(rows: Sequence[Row], attack: str | None = None, fpr: float | None = None) -> list[Calibration]:
    """For every group the TPR at a low FPR, and the AUC; of the attack asked for, else of the strongest."""
    found = []
    for group in sorted({row["group"] for row in rows}):
        own = [row for row in rows if row["group"] == group]
        for leakage in dict.fromkeys((choose_leakage(drawn_by(own, attack), fpr), AUC)):
            found.append(_calibration(group, own, leakage, attack))
    return found


def calibrate_pictures(rows: Sequence[Row]) -> list[Calibration]:
    """The same for rows of the view `reconstruction`: methods at equal error of rebuilt pictures."""
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
    """For every group and axis: a line per level, a column per method."""
    tables = []
    for each in found:
        lines = []
        for level in each.levels():
            offers = [curve.at(level) for curve in each.curves]
            lines.append((_level(level, each.leakage), *map(_told, offers)))
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
    "A method offers what the best of its cells at this leakage or less does, chosen by accuracy on "
    "non-members; - where every cell leaks more.",
    "By AUC, ~ marks a model of either of two cells drawn at random: its mean accuracy and AUC are on the "
    "line between them. By TPR they would not be: who sees which model it is spends false positives better.",
    "Intervals are those of the cells over models, 95 %, mixed with them; leakage is as measured.",
    "A measured leakage is a lower bound of what could be learnt: a stronger attack may order methods anew.",
)


def _level(level: float, leakage: Leakage) -> str:
    if leakage is NEARNESS:
        return f"MSE at least {-level:.4f}"
    return f"{level:.3f}" if leakage is AUC else f"{100 * level:.2f} %"


def _told(offer: Offer | None) -> str:
    if offer is None:
        return "-"
    sign = "~" if offer.mixed else ""
    band = "" if offer.low is None else f" [{100 * offer.low:.1f}, {100 * (offer.high or 0):.1f}]"
    return f"{sign}{100 * offer.accuracy:.1f} %{band}"
