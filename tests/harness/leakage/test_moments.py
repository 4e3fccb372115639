"""Leave-one-out moments against numpy on the rows that are left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.leakage.matrices import Bools, Floats
from harness.leakage.moments import RESOLUTION, Moments, leave_one_out

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 4))
CASES = SHAPES.flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float64, shape, elements=st.floats(-1e3, 1e3)),
        hnp.arrays(np.bool_, shape),
    )
)


@given(CASES)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_equal_numpy_on_the_remaining_rows(case: tuple[Floats, Bools]) -> None:
    values, chosen = case
    moments = leave_one_out(values, chosen)
    for m in range(values.shape[0]):
        for i in range(values.shape[1]):
            rows = [r for r in range(len(values)) if r != m and chosen[r, i]]
            left = values[rows, i]
            assert moments.count[m, i] == len(left)
            if len(left):
                assert moments.mean[m, i] == pytest.approx(left.mean(), rel=1e-9, abs=1e-9)
                squares = ((left - left.mean()) ** 2).sum()
                assert moments.squares[m, i] == pytest.approx(squares, rel=1e-9, abs=1e-9)


def test_an_outlying_target_does_not_cancel_the_others_spread() -> None:
    """E[x^2] - E[x]^2, or taking the target out of a total, would lose the spread here."""
    values = np.array([[1e9], [1.0], [1.0 + 1e-6], [1.0 + 2e-6]])
    moments = leave_one_out(values, np.ones((4, 1), dtype=np.bool_))
    assert moments.squares[0, 0] == pytest.approx(2e-12, rel=1e-6)


def test_row_m_does_not_enter_row_m_even_by_a_bit() -> None:
    random = np.random.default_rng(0)
    values, chosen = random.standard_normal((5, 40)), random.random((5, 40)) < 0.5
    changed, flipped = values.copy(), chosen.copy()
    changed[2], flipped[2] = 1e12, ~chosen[2]
    one, two = leave_one_out(values, chosen)[2], leave_one_out(changed, flipped)[2]
    for before, after in ((one.count, two.count), (one.mean, two.mean), (one.squares, two.squares)):
        np.testing.assert_array_equal(before, after)


def test_identical_values_have_exactly_no_spread() -> None:
    moments = leave_one_out(np.full((7, 3), 0.1), np.ones((7, 3), dtype=np.bool_))
    np.testing.assert_array_equal(moments.mean, 0.1)
    np.testing.assert_array_equal(moments.squares, 0)


def test_pooled_variance_weighs_by_degrees_of_freedom() -> None:
    moments = Moments(
        count=np.array([[3.0, 2.0, 1.0, 0.0]]),
        mean=np.zeros((1, 4)),
        squares=np.array([[4.0, 5.0, 0.0, 0.0]]),
    )
    np.testing.assert_allclose(moments.pooled_variance(), [[3.0]])
    np.testing.assert_allclose(moments.variance(fixed=True), [[3, 3, 3, 3]])
    np.testing.assert_allclose(moments.variance(fixed=False), [[2, 5, 3, 3]])


def test_variance_is_one_where_nothing_is_known_and_never_below_float32() -> None:
    lone = Moments(count=np.ones((1, 2)), mean=np.zeros((1, 2)), squares=np.zeros((1, 2)))
    np.testing.assert_array_equal(lone.variance(fixed=False), 1)
    flat = Moments(count=np.full((1, 1), 3.0), mean=np.full((1, 1), -50.0), squares=np.zeros((1, 1)))
    np.testing.assert_allclose(flat.variance(fixed=False), (50 * RESOLUTION) ** 2)
