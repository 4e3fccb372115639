"""Who was tuned how: the notes on rows of the frontier that are not compared on equal terms."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from harness.report.reading import Row

NOT_TUNED = "no"
"""In the column `tuned`."""
SPENT = 0.9
"""The least share of epsilon that should be spent."""
LUCKY = 0.03
"""A range of test accuracy over studies from which it is noted."""


def is_shown(row: Row) -> bool:
    """Whether a row stands for its method: of several studies of a tune only the median one does."""
    return row.get("median_study") is not False


def is_untuned(row: Row) -> bool:
    """Whether no value of a row was searched for."""
    return row.get("tuned") == NOT_TUNED


def find_untuned(rows: Sequence[Row]) -> set[str]:
    """The cells of a group that show a setting, where some method of the group was tuned; none otherwise."""
    untuned = {row["cell"] for row in rows if is_untuned(row)}
    return untuned if any(row.get("tuned") not in (None, NOT_TUNED) for row in rows) else set()


def tuning_notes(rows: Iterable[Row], group: str = "group") -> list[str]:
    """All notes on the rows, for each group (the column of that name) in turn."""
    own: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if is_shown(row):
            own[row[group]].append(row)
    notes = []
    for name, each in own.items():
        cells = list({row["cell"]: row for row in each}.values())
        found = [_compared(cells), *_elsewhere(cells), *_unspent(cells), *_lucky(cells)]
        start = f"{name}: " if len(own) > 1 else ""
        notes += [start + text for text in found if text]
    return notes


def _compared(cells: Sequence[Row]) -> str:
    """Who was tuned with which budget, and who was not; empty if nobody was."""
    how: dict[str, dict[str, None]] = defaultdict(dict)
    for row in cells:
        how[row["method"]][_budget(row)] = None
    if all(set(budgets) == {NOT_TUNED} for budgets in how.values()):
        return ""
    tuned: dict[str, str] = {}
    before: dict[str, str] = {}
    for method, budgets in how.items():
        known = [each for each in budgets if each != NOT_TUNED]
        if known:
            own = [row for row in cells if row["method"] == method and not is_untuned(row)]
            by_tune = all(row.get("trials") is not None for row in own)
            (tuned if by_tune else before)[method] = " or ".join(known)
    parts = []
    if len(set(tuned.values())) > 1:
        parts.append(f"Tuned with unequal budgets: {_with_budgets(tuned)}: more trials find more.")
    elif tuned:
        equal = "Tuned with equal budgets" if len(tuned) > 1 else "Tuned"
        parts.append(f"{equal}: {', '.join(tuned)} ({next(iter(tuned.values()))}).")
    if before:
        parts.append(f"{'Tuned otherwise' if tuned else 'Tuned'}: {_with_budgets(before)}.")
    if bare := [name for name in how if NOT_TUNED in how[name] and len(how[name]) == 1]:
        parts.append(f"Not tuned: {', '.join(bare)}: their rows show settings, not methods.")
    if partly := [row["label"] for row in cells if is_untuned(row) and row["method"] not in bare]:
        parts.append(f"Not tuned at this level: {', '.join(partly)}.")
    return " ".join(parts)


def _budget(row: Row) -> str:
    """The budget of a tune as it was asked for, else the text of the counts."""
    if row.get("trials") is not None:
        return f"{row['trials']} x {row['studies']}"
    return str(row.get("tuned") or NOT_TUNED)


def _with_budgets(methods: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({budget})" for name, budget in methods.items())


def _elsewhere(cells: Sequence[Row]) -> list[str]:
    """Values of a recipe that were tuned for other levels or sizes."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in cells:
        if row.get("tuned_at"):
            found[row["tuned_at"]].append(row["label"])
    return [f"Tuned at {where}, not at theirs: {', '.join(names)}." for where, names in found.items()]


def _unspent(cells: Sequence[Row]) -> list[str]:
    """Cells that spend clearly less than the epsilon they were given."""
    return [
        f"{row['label']}: spends ε={row['epsilon']:.3g} of {row['epsilon_asked']:g}: "
        "its noise is that of a smaller budget."
        for row in cells
        if row["epsilon"] is not None
        and row["epsilon_asked"] is not None
        and math.isfinite(row["epsilon_asked"])
        and row["epsilon"] < SPENT * row["epsilon_asked"]
    ]


def _lucky(cells: Sequence[Row]) -> list[str]:
    """Cells whose studies end far apart."""
    spread = [(row, row.get("accuracy_study_low"), row.get("accuracy_study_high")) for row in cells]
    return [
        f"{row['label']}: test accuracy {100 * low:.1f} to {100 * high:.1f} % over the tune's studies: "
        "a difference below that is luck of the search."
        for row, low, high in spread
        if low is not None and high is not None and high - low > LUCKY
    ]
