"""The colour and marker of a method: a function of its name, the same in every figure and on the page."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

# Okabe and Ito, "Color Universal Design" (2008): distinguishable with every common colour blindness; their
# yellow, faint on white, is replaced by the indigo of Tol, "Colour Schemes" (2021). No method gets grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#332288")
MARKERS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "h": "hexagon",
    "*": "star",
}
"""Matplotlib's markers and plotly's symbols for them."""
SLOTS = len(PALETTE) * len(MARKERS)
SALT = 930696
"""Chosen so that no two methods of this package share a mark, nor three a colour; a test verifies it. Another
salt would change the colours of all figures."""


@dataclass(frozen=True)
class Mark:
    """How a method is drawn."""

    colour: str
    marker: str

    @property
    def symbol(self) -> str:
        """The marker on the page."""
        return MARKERS[self.marker]


BASELINE = Mark("#767676", "^")
"""The plain baseline: the only one in grey."""


def assign_marks(methods: Iterable[str], baselines: Collection[str] = ()) -> dict[str, Mark]:
    """The mark of each method, baselines first, then by name; `methods` are all those of the database.

    A mark depends on the name alone. Only if the names of two methods of one database hash to the same slot,
    the later name gets the next free one: one figure must not show two methods alike.
    """
    found = dict.fromkeys(sorted(baselines), BASELINE)
    taken: set[int] = set()
    for name in sorted(set(methods) - set(baselines)):
        slot = find_slot(name)
        while slot in taken and len(taken) < SLOTS:
            slot = (slot + 1) % SLOTS
        taken.add(slot)
        found[name] = Mark(PALETTE[slot % len(PALETTE)], list(MARKERS)[slot // len(PALETTE)])
    return found


def find_slot(name: str) -> int:
    """The place of a name among all pairs of colour and marker, by a hash."""
    digest = sha256(f"mark {SALT} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % SLOTS


def colours_of(marks: Mapping[str, Mark]) -> dict[str, str]:
    """The colours alone."""
    return {name: mark.colour for name, mark in marks.items()}
