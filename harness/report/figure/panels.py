"""Panels of the frontier: one axis of leakage, one group, and one attack."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.figure.style import KINDS, UNKNOWN_KIND, format_asked, format_epsilon, shorten
from harness.report.leakage import STRONGEST, Leakage, choose_attack, drawn_by, rows_on_front
from harness.report.reading import Row
from harness.report.tuning.budgets import is_shown

NAMED = 24
"""The most points of a panel that are all named; of more, some of those on the front are."""
FRONT_NAMED = 12
"""The number of those, at most: more would cover the points."""
DRAWN = 500
"""Cells drawn in a panel, at most: more overlap and take minutes. The tables hold all."""


@dataclass(frozen=True)
class Panel:
    """One axis of leakage for one group, with one row for each cell under the attack."""

    leakage: Leakage
    attack: str
    rows: list[Row]
    cells: int
    """Cells of the group, attacked by this one or not."""

    @property
    def title(self) -> str:
        """The attack, and the share of cells it was run on."""
        named = (
            "strongest attack of each cell"
            if self.attack == STRONGEST
            else f"attack {shorten(self.attack, 40)}"
        )
        tried = "" if len(self.rows) == self.cells else f" ({len(self.rows)} of {self.cells} cells)"
        return f"{named}{tried}{self.thinning}"

    @property
    def axis(self) -> str:
        """The label of its axis of leakage in print, where there is no title."""
        return self.leakage.name + (
            "" if self.attack == STRONGEST else f", attack {shorten(self.attack, 24)}"
        )

    @property
    def drawn(self) -> list[Row]:
        """Its cells; if they are many, the front's and others evenly by method and epsilon."""
        if len(self.rows) <= DRAWN:
            return self.rows
        front = {row["cell"] for row in spread(rows_on_front(self.rows, self.leakage), DRAWN // 2)}
        others = [row for row in self.rows if row["cell"] not in front]
        kept = front | {row["cell"] for row in spread(others, DRAWN - len(front))}
        return [row for row in self.rows if row["cell"] in kept]

    @property
    def thinning(self) -> str:
        """The note if not all cells are drawn."""
        return say_thinned(DRAWN, len(self.rows))


def spread(rows: Sequence[Row], most: int) -> list[Row]:
    """At most `most` of the rows, two or more: the first, the last and evenly spaced ones between."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def say_thinned(most: int, cells: int) -> str:
    """The note that only `most` cells are drawn, if there are more."""
    return f"; {most:,} of {cells:,} cells drawn, the table has all" if cells > most else ""


def choose_panel(rows: Sequence[Row], leakage: Leakage, attack: str | None = None) -> Panel:
    """The rows of one group under the given attack, else under `strongest`; of a tune the median study."""
    standing = list(filter(is_shown, rows))
    cells = len({row["cell"] for row in standing})
    return Panel(leakage, choose_attack(rows, attack), drawn_by(standing, attack), cells)


def describe_group(rows: Sequence[Row]) -> str:
    """The group's name, with its numbers of models and non-members."""
    models = _span([row["models"] for row in rows])
    nonmembers = _span([row["n_nonmembers"] for row in rows])
    noun = "model" if models == "1" else "models"
    return f"{shorten(rows[0]['group'], 60)} · {models} {noun} a cell, {nonmembers} non-members pooled"


def name_point(row: Row, with_kind: bool = False) -> str:
    """The epsilon asked for, else the computed one, else the rest of the label after the method.

    `with_kind` adds the kind of guarantee, for a method whose cells have several.
    """
    asked, computed = row.get("epsilon_asked"), row["epsilon"]
    if computed is not None or asked is not None:
        name = format_asked(asked) if asked is not None else format_epsilon(computed)
        kind = KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[0]
        return f"{name}, {kind}" if with_kind and row["guarantee_kind"] != "none" else name
    label = str(row["label"] or row["method"])
    return shorten(label.removeprefix(str(row["method"])).strip() or row["method"])


def _span(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "?"
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
