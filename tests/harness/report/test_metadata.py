from datetime import UTC, datetime

import pytest

from harness.report.metadata import Imprint, report_time
from workloads.errors import SpecError


def test_the_date_is_the_one_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert Imprint("t", "q").date == "1970-01-01T00:00:00Z"
    assert Imprint("t", "select 1\nfrom x").lines()[1:] == ["select 1", "from x"]


def test_without_one_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    before = datetime.now(UTC).replace(microsecond=0)
    assert before <= report_time() <= datetime.now(UTC)


@pytest.mark.parametrize("given", ["yesterday", "", "1e9", "9" * 30])
def test_an_invalid_date_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    with pytest.raises(SpecError) as caught:
        report_time()
    assert (caught.value.field, caught.value.value) == ("SOURCE_DATE_EPOCH", given)
