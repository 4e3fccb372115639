"""Adjacency: which data sets are neighbours under a guarantee."""

from dp_accounting import NeighboringRelation

from workloads.errors import AccountingError, unknown

ADD_OR_REMOVE = "add-or-remove-one"
REPLACE_ONE = "replace-one"

RELATIONS = {
    ADD_OR_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    "replace-special": NeighboringRelation.REPLACE_SPECIAL,
}
"""Our names and dp-accounting's. Replace-special swaps a record for one that contributes nothing."""


def find_relation(adjacency: str) -> NeighboringRelation:
    """dp-accounting's relation of this name; AccountingError if there is none."""
    if adjacency not in RELATIONS:
        raise AccountingError(
            unknown("adjacency", adjacency, RELATIONS),
            field="adjacency",
            value=adjacency,
            allowed=tuple(RELATIONS),
        )
    return RELATIONS[adjacency]
