"""Prices computed once."""

from pathlib import Path

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from harness.accounting import price, price_cache, price_once
from harness.accounting.price_cache import Question, fingerprint
from methods.mechanisms.events import SelectiveReleaseDpEvent
from workloads.errors import AccountingError
from workloads.fingerprint import SourceFingerprint, source_fingerprint

ROOT = Path(price_cache.__file__).parents[2]
STEPS = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 20)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[DpEvent]:
    """The events that were really priced."""
    seen: list[DpEvent] = []

    def count(event: DpEvent, delta: float | None) -> object:
        seen.append(event)
        return price(event, delta)

    monkeypatch.setattr(price_cache, "price", count)
    return seen


@pytest.mark.parametrize(
    "event",
    [
        STEPS,
        ComposedDpEvent([GaussianDpEvent(3.0), STEPS]),  # its list is not hashable
        SelectiveReleaseDpEvent(GaussianDpEvent(5.0), 3, 5),
        NonPrivateDpEvent(),
    ],
)
def test_a_kept_price_is_the_price(event: DpEvent, tmp_path: Path, asked: list[DpEvent]) -> None:
    expected = price(event, 1e-5)
    assert price_once(event, 1e-5, tmp_path) == expected
    assert price_once(event, 1e-5, tmp_path) == expected, "from this process"
    price_cache._kept.cache_clear()
    assert price_once(event, 1e-5, tmp_path) == expected, "from the disk"
    assert asked == [event]


def test_equal_ledgers_share_a_price_and_others_do_not(tmp_path: Path, asked: list[DpEvent]) -> None:
    same = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 20)
    one_more = SelfComposedDpEvent(STEPS.event, 21)
    prices = [price_once(each, 1e-5, tmp_path).epsilon for each in (STEPS, same, one_more)]
    assert prices[0] == prices[1] != prices[2]
    assert price_once(STEPS, 1e-6, tmp_path).delta == 1e-6
    assert len(asked) == 3


def test_a_price_of_other_code_is_not_used(
    tmp_path: Path, asked: list[DpEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    price_once(STEPS, 1e-5, tmp_path)
    price_cache._kept.cache_clear()
    monkeypatch.setattr(price_cache, "fingerprint", lambda: "other")
    price_once(STEPS, 1e-5, tmp_path)
    assert len(asked) == 2
    assert Question("", 1e-5, tmp_path, STEPS).plain()["code"] == "other" != fingerprint()


def test_the_fingerprint_follows_code_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = fingerprint.__wrapped__
    assert fresh() == fingerprint()
    with monkeypatch.context() as patched:
        patched.setattr(price_cache, "version", lambda name: "0")
        assert fresh() != fingerprint()
    files = source_fingerprint("harness.accounting.pricing").files
    accountants = (ROOT / "harness/accounting/accountants").glob("*.py")
    expected = {str(each.relative_to(ROOT)) for each in accountants}
    assert expected | {"harness/accounting/guarantee.py", "methods/mechanisms/events.py"} <= set(files)
    monkeypatch.setattr(price_cache, "source_fingerprint", lambda module: SourceFingerprint("other", {}))
    assert fresh() != fingerprint()


def test_a_damaged_file_is_priced_again(tmp_path: Path, asked: list[DpEvent]) -> None:
    expected = price_once(STEPS, 1e-5, tmp_path)
    price_cache._kept.cache_clear()
    (kept,) = tmp_path.glob("*.json")
    kept.write_text(kept.read_text(encoding="utf-8").replace(repr(expected.epsilon), "0.5"), encoding="utf-8")
    assert price_once(STEPS, 1e-5, tmp_path) == expected
    assert len(asked) == 2


def test_a_refusal_is_not_kept(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(AccountingError):
            price_once(GaussianDpEvent(1.0), 2.0, tmp_path)
    assert not list(tmp_path.iterdir())
