"""Privacy loss distributions: the tightest upper bound, and the headline price."""

import math

from dp_accounting import DpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant


def epsilon_pld(event: DpEvent, delta: float, relation: NeighboringRelation, width: float) -> float:
    """An upper bound on epsilon by composing privacy losses rounded to a mesh (Doroshenko et al. 2022).

    Rounding is pessimistic: a coarse mesh costs tightness and never validity.
    """
    accountant = PLDAccountant(relation, value_discretization_interval=width)
    return float(accountant.compose(event).get_epsilon(delta))


def supports_pld(event: DpEvent, relation: NeighboringRelation) -> bool:
    """Whether the loss distribution of the event is known under this relation."""
    return bool(PLDAccountant(relation).supports(event))


def mesh(epsilon: float, releases: int) -> float:
    """The mesh width that costs about 1e-4 of an epsilon of this size; time is in proportion to 1 / width.

    Each of T releases adds at most about width^2 to epsilon, and the loss of one release has a standard
    deviation of about epsilon / (4 sqrt(T)), which the mesh must resolve. A power of two, so that a rough
    epsilon that differs in its last digits gives the same mesh and the same price.
    """
    size = max(epsilon, 1e-3)
    width = min(1e-3 * size, 1e-2 * min(size, math.sqrt(size)) / math.sqrt(max(releases, 1)))
    return 2.0 ** math.floor(math.log2(width))
