"""Notes that tasks of older versions lack, taken from their method if it is installed.

The only module of results that imports methods, and torch with them; newer tasks carry their notes.
"""

from collections.abc import Mapping
from typing import Any

from harness.spec import Declared


def find_declared(method: str, params: Mapping[str, Any]) -> Declared:
    """What the method declares about a cell with these parameters; nothing if it is not installed.

    An older task does not record whether its number of releases was solved for or given: the free parameter
    is assumed.
    """
    from harness.plan.declarations import declared_by
    from methods import family

    return declared_by(method, params) if method in family.members else Declared()


def find_uncounted(method: str) -> frozenset[str]:
    """The parameters that do not define a configuration; those of every method if it is not installed."""
    from harness.plan.declarations import uncounted
    from methods import family

    return uncounted(family.get(method)) if method in family.members else frozenset({"epsilon", "delta"})
