"""What a panel of the frontier shows: one axis of leakage, one group, and its strongest attack."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.figure.style import format_epsilon, shorten
from harness.report.leakage import Leakage, choose_attack, name_attacks, rows_on_front
from harness.report.reading import Row

NAMED = 24
"""Points of a panel up to which all have their names; of more, some of those on the front."""
FRONT_NAMED = 12
"""How many of them, at most: more would cover the points."""
DRAWN = 500
"""Cells that a panel draws, at most: more are a blot, and take minutes. The tables hold all."""


@dataclass(frozen=True)
class Panel:
    """One axis of leakage for one group: its strongest attack, one row for each cell it was tried on."""

    leakage: Leakage
    attack: str
    rows: list[Row]
    attacks: int
    """How many attacks the chosen one was the strongest of."""
    cells: int
    """Cells of the group, attacked by the chosen one or not."""

    @property
    def title(self) -> str:
        """Which attack, and how it was chosen."""
        how = (
            f"strongest of {self.attacks} by mean {self.leakage.name}" if self.attacks > 1 else "the only one"
        )
        tried = "" if len(self.rows) == self.cells else f", on {len(self.rows)} of {self.cells} cells"
        return f"attack {shorten(self.attack, 40)} ({how}{tried}){self.thinning}"

    @property
    def drawn(self) -> list[Row]:
        """Its cells; of very many, the front's and others evenly by method and epsilon."""
        if len(self.rows) <= DRAWN:
            return self.rows
        front = {row["cell"] for row in spread(rows_on_front(self.rows, self.leakage), DRAWN // 2)}
        others = [row for row in self.rows if row["cell"] not in front]
        kept = front | {row["cell"] for row in spread(others, DRAWN - len(front))}
        return [row for row in self.rows if row["cell"] in kept]

    @property
    def thinning(self) -> str:
        """What is said where not all cells are drawn."""
        return say_thinned(DRAWN, len(self.rows))


def spread(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many of the rows, two or more: the first, the last and even steps between them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def say_thinned(most: int, cells: int) -> str:
    """That so many cells at most are drawn, where there are more."""
    return f"; {most:,} of {cells:,} cells drawn, the table has all" if cells > most else ""


def choose_panel(rows: Sequence[Row], leakage: Leakage) -> Panel:
    """The rows of one group under the attack that is strongest by this leakage."""
    attack = choose_attack(rows, leakage)
    names = name_attacks(rows)
    shown = [row for name, row in zip(names, rows, strict=True) if name == attack]
    return Panel(leakage, attack, shown, len(set(names)), len({row["cell"] for row in rows}))


def describe_group(rows: Sequence[Row]) -> str:
    """The group's name, and over how many models and non-members its numbers are."""
    models = _span([row["models"] for row in rows])
    people = _span([row["n_nonmembers"] for row in rows])
    word = "model" if models == "1" else "models"
    return f"{shorten(rows[0]['group'], 60)} · {models} {word} a cell, {people} non-members pooled"


def name_point(row: Row) -> str:
    """The priced epsilon, or what the label says besides the method."""
    if row["epsilon"] is not None:
        return format_epsilon(row["epsilon"])
    label = str(row["label"] or row["method"])
    return shorten(label.removeprefix(str(row["method"])).strip() or row["method"])


def _span(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "?"
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
