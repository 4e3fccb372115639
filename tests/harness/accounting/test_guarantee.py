"""The check of a price against its target."""

import math

import pytest

from harness.accounting import Guarantee, check
from workloads.errors import AccountingError


def costing(epsilon: float | None) -> Guarantee:
    return Guarantee("approximate-dp" if epsilon else "none", epsilon, 1e-5, "add-or-remove-one", "pld")


@pytest.mark.parametrize(
    ("epsilon", "target"), [(4.0, 4.0), (4.0 * (1 + 5e-7), 4.0), (0.1, 4.0), (4.0, None), (4.0, math.inf)]
)
def test_a_price_at_or_below_its_target_passes(epsilon: float, target: float | None) -> None:
    check(costing(epsilon), target)


@pytest.mark.parametrize("epsilon", [4.0 * (1 + 2e-6), 5.0, math.inf, math.nan])
def test_a_price_above_its_target_is_an_error(epsilon: float) -> None:
    with pytest.raises(AccountingError) as caught:
        check(costing(epsilon), 4.0)
    assert (caught.value.field, caught.value.allowed) == ("epsilon", 4.0)


def test_no_guarantee_breaks_every_target() -> None:
    with pytest.raises(AccountingError) as caught:
        check(costing(None), 4.0)
    assert (caught.value.value, caught.value.allowed) == (None, 4.0)


def test_a_target_that_is_no_number_is_refused() -> None:
    with pytest.raises(AccountingError) as caught:
        check(costing(4.0), math.nan)
    assert caught.value.field == "target_epsilon"
