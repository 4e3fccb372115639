"""Limits are for every attack or for one, and count where the lower end of the interval is above."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.audit.door import audit
from harness.audit.limits import Limit, check_resolved, read_limit
from workloads.errors import SpecError


def test_a_limit_is_read() -> None:
    assert read_limit("tpr_at_1pct=0.02") == Limit(None, "tpr_at_1pct", 0.02)
    assert read_limit("lira:auc=0.6") == Limit("lira", "auc", 0.6)


@pytest.mark.parametrize(
    "text", ["tpr=0.1", "auc", "auc=", "auc=2", "auc=nan", ":auc=0.5", "tpr_at_1pct=-1", "=0.5"]
)
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_limit(text)
    assert (caught.value.field, caught.value.value) == ("fail_above", text)


def test_a_rate_that_cannot_be_resolved_cannot_be_limited() -> None:
    check_resolved([read_limit("tpr_at_1pct=0.1"), read_limit("auc=0.6")], 1000)
    with pytest.raises(SpecError) as caught:
        check_resolved([read_limit("tpr_at_1pct=0.1")], 999)
    assert (caught.value.value, caught.value.allowed) == (999, 1000)


def test_the_lower_end_decides(simulated: Callable[..., Any]) -> None:
    members, others = simulated(shadows=2)
    first = audit(members=members, others=others)
    metrics = first.figures("rmia").metrics
    assert metrics.auc is not None
    assert metrics.auc_low is not None
    between = (metrics.auc + metrics.auc_low) / 2
    limits = [f"rmia:auc={between}", f"rmia:auc={metrics.auc_low - 0.001}"]
    found = audit(members=members, others=others, fail_above=limits)
    assert [each.exceeded for each in found.limits] == [False, True]
    assert found.alarms == [found.limits[1].message]


def test_a_limit_without_an_attack_is_for_all_that_ran(simulated: Callable[..., Any]) -> None:
    members, others = simulated(shadows=1)
    found = audit(members=members, others=others, fail_above=["auc=0.5"])
    assert [each.attack for each in found.limits] == ["loss", "population", "rmia"]
    with pytest.raises(SpecError) as caught:
        audit(members=members, others=others, fail_above=["lira:auc=0.5"])
    assert (caught.value.value, caught.value.allowed) == ("lira", ("loss", "population", "rmia"))
