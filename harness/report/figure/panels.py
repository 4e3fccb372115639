"""What a panel of the frontier shows: one axis of leakage, one group, and the attack it is drawn by."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.figure.style import format_epsilon, shorten
from harness.report.leakage import STRONGEST, Leakage, choose_attack, drawn_by, rows_on_front
from harness.report.reading import Row

NAMED = 24
"""Points of a panel up to which all have their names; of more, some of those on the front."""
FRONT_NAMED = 12
"""How many of them, at most: more would cover the points."""
DRAWN = 500
"""Cells that a panel draws, at most: more are a blot, and take minutes. The tables hold all."""


@dataclass(frozen=True)
class Panel:
    """One axis of leakage for one group, with one row for each cell that the attack was tried on."""

    leakage: Leakage
    attack: str
    rows: list[Row]
    cells: int
    """Cells of the group, attacked by this one or not."""

    @property
    def title(self) -> str:
        """Which attack, and where it was not tried."""
        named = (
            "strongest attack of each cell"
            if self.attack == STRONGEST
            else f"attack {shorten(self.attack, 40)}"
        )
        tried = "" if len(self.rows) == self.cells else f" ({len(self.rows)} of {self.cells} cells)"
        return f"{named}{tried}{self.thinning}"

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


def choose_panel(rows: Sequence[Row], leakage: Leakage, attack: str | None = None) -> Panel:
    """The rows of one group under the attack asked for, else under `strongest`."""
    cells = len({row["cell"] for row in rows})
    return Panel(leakage, choose_attack(rows, attack), drawn_by(rows, attack), cells)


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
