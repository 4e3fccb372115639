"""Calibrated ranks rise with the loss, and are mid-ranks at the population's losses."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.leakage.matrices import Floats
from harness.leakage.ranks import calibrated_rank

LOSSES = hnp.arrays(
    np.float64, st.integers(1, 30), elements=st.floats(0, 1e3) | st.sampled_from([0.0, 0.1, 1e-300])
)


@given(LOSSES, LOSSES)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_rank_is_strictly_increasing_in_the_loss(losses: Floats, population: Floats) -> None:
    rank = calibrated_rank(losses, population)
    order = np.argsort(losses, kind="stable")
    apart = np.diff(losses[order]) > 0
    np.testing.assert_array_equal(np.diff(rank[order]) > 0, apart)
    assert ((rank >= 0) & (rank <= 1)).all()


def test_rank_is_the_mid_rank_at_population_losses() -> None:
    population = np.array([1.0, 2.0, 2.0, 4.0])
    rank = calibrated_rank(np.array([1.0, 2.0, 3.0, 4.0, 0.5, 9.0]), population)
    np.testing.assert_allclose(rank, [0.2, 0.5, 0.65, 0.8, 0.1, 0.9])
