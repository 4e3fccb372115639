"""Rényi accounting: quick, valid, a little loose. The second opinion and the first guess."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from dp_accounting import DpEvent, NeighboringRelation
from dp_accounting.rdp import RdpAccountant, compute_epsilon

ORDERS = tuple([1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512])
WHOLE_ORDERS = (*range(2, 64), 128, 256, 512)
"""A closed form instead of a series: much quicker, looser where epsilon is large. Good for a guess."""

ROUNDING = 1e-9
"""Added to every Rényi divergence: rounding makes tiny ones negative, and dp-accounting then says 0."""


def epsilon_rdp(
    event: DpEvent,
    delta: float,
    relation: NeighboringRelation,
    orders: Sequence[float] = ORDERS,
) -> float:
    """An upper bound on epsilon: Mironov, Talwar and Zhang 2019, conversion of Balle et al. 2020.

    Orders at which the series does not converge or overflows are left out, which only raises the bound.
    """
    with _quiet(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        divergences = RdpAccountant(orders, relation).compose(event).rdp
    known = np.where(np.isnan(divergences), np.inf, np.maximum(divergences, 0) + ROUNDING)
    return float(compute_epsilon(orders, known, delta)[0])


def supports_rdp(event: DpEvent, relation: NeighboringRelation) -> bool:
    """Whether Rényi accounting has a theorem for the event under this relation."""
    return bool(RdpAccountant(ORDERS, relation).supports(event))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep dp-accounting's notes on left-out orders off the user's terminal."""
    logger = logging.getLogger("absl")
    logger.addFilter(_is_no_note)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_note)


def _is_no_note(record: logging.LogRecord) -> bool:
    return "failed to converge" not in str(record.msg)
