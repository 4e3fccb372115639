"""Which trials get more models, and which one a study chooses: the same rule for all methods."""

from collections.abc import Sequence

from harness.tuning.scores import Scored

CONFIRMED = 3
"""Trials of a study that get more models."""


def find_best(study: Sequence[Scored], max_gap: float | None) -> list[Scored]:
    """The trials to confirm: the best of the study, each with a cell of its own."""
    cells: set[str] = set()
    found: list[Scored] = []
    for each in ranked(study, max_gap):
        cell = each.trial.cell
        if cell is not None and cell.key not in cells and len(found) < CONFIRMED:
            cells.add(cell.key)
            found.append(each)
    return found


def choose(study: Sequence[Scored], max_gap: float | None) -> Scored | None:
    """The best of the confirmed trials, or of all if none was confirmed; None if none fits."""
    confirmed = [each for each in study if each.confirmed]
    return next(iter(ranked(confirmed or study, max_gap)), None)


def ranked(study: Sequence[Scored], max_gap: float | None) -> list[Scored]:
    """Trials with a model, the best first; of equal ones the first, and only those within the gap."""
    able = [each for each in study if each.trained and (max_gap is None or each.gap <= max_gap)]
    return sorted(able, key=lambda each: (-each.score, each.trial.place.number))
