"""The leakage of a cell: that of the strongest declared attack, chosen for each target on other models."""

from typing import ClassVar

import methods.base
from harness import attacks
from harness.attacks.base import Attack, Selection
from harness.leakage.candidates import FAMILY, NEEDED


class StrongestParams(methods.base.Params):
    """Nothing to set."""


class Strongest:
    """The declared family (`loss`, `lira` and `rmia` with default parameters), one figure for each cell.

    For every figure half of the models choose the attack for the other half and vice versa; the figure is
    the mean over 12 fixed splits into halves, its standard error the largest of the three attacks'
    (harness/leakage/candidates.py). The largest of three estimates would be biased upwards, and one attack
    for all cells is too weak on some.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "the strongest of loss, lira and rmia, chosen for each target on other models"
    source: ClassVar[str] = (
        "ours: selection on other models against the bias of the largest of several figures"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "chosen on other models, so it can be lower than a single attack's figure in this cell",
        "AUC and TPR only: other figures are not comparable across attacks",
    )
    Params: ClassVar[type[methods.base.Params]] = StrongestParams
    shadows: ClassVar[int] = NEEDED - 1

    def candidates(self) -> dict[str, Attack]:
        """The attacks of the family by name."""
        return {name: _membership(name) for name in FAMILY}


def _membership(name: str) -> Attack:
    found = attacks.family.get(name)
    if not isinstance(found, Attack):
        raise TypeError(f"{name} of the declared family has no scores")
    return found


attack: Selection = Strongest()
