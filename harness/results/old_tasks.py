"""What tasks of older versions did not note: asked of their method, where it is installed.

Only here do results meet methods, and load torch with them; newer tasks carry their notes.
"""

from collections.abc import Mapping
from typing import Any

from harness.spec import Declared


def ask_declared(method: str, params: Mapping[str, Any]) -> Declared:
    """What the method declares of a cell with these parameters; nothing where it is not installed.

    An older task does not tell a number of releases that was solved for from one that was given: the free
    parameter is named.
    """
    from harness.plan.declarations import declared_by
    from methods import family

    return declared_by(method, params) if method in family.members else Declared()


def ask_uncounted(method: str) -> frozenset[str]:
    """The parameters that make no other configuration; those of every method where it is not installed."""
    from harness.plan.declarations import uncounted
    from methods import family

    return uncounted(family.get(method)) if method in family.members else frozenset({"epsilon", "delta"})
