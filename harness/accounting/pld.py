"""Privacy loss distributions: the tightest upper bound, and the headline price."""

import math

from dp_accounting import DpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant


def epsilon_pld(event: DpEvent, delta: float, relation: NeighboringRelation, scale: float) -> float:
    """An upper bound on epsilon by composing discretised privacy losses (Doroshenko et al. 2022).

    Args:
        event: What was done.
        delta: The delta of the guarantee.
        relation: Which data sets are neighbours.
        scale: A rough epsilon, for the mesh: time grows with epsilon over mesh, and so does accuracy.
    """
    accountant = PLDAccountant(relation, value_discretization_interval=mesh(scale))
    return float(accountant.compose(event).get_epsilon(delta))


def supports_pld(event: DpEvent, relation: NeighboringRelation) -> bool:
    """Whether the loss distribution of the event is known under this relation."""
    return bool(PLDAccountant(relation).supports(event))


def mesh(scale: float) -> float:
    """The mesh of the losses: 1e-4 for epsilons from 1 to 10, and in proportion elsewhere.

    Rounding is upwards, so a coarse mesh costs tightness and never validity. Powers of ten, so that
    a rough epsilon that differs in its last digits gives the same mesh and the same price.
    """
    digits = math.floor(math.log10(scale)) if scale > 0 else -3
    return 1e-4 * 10.0 ** min(max(digits, -2), 4)
