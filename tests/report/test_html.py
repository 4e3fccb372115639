import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from harness.report.data import Reading
from harness.report.html import encode_data, page_data, render_page

HOSTILE = '</script><script>alert(1)</script><b>&amp;\u2028 %{x} {{plotly}} "\\'


class Scripts(HTMLParser):
    """Collects the elements of a page and the text of its data."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data = ""
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        self.data += data if self.inside else ""


def parse(page: str) -> Scripts:
    parser = Scripts()
    parser.feed(page)
    return parser


@pytest.fixture(scope="module")
def page(quickstart: Reading) -> str:
    return render_page(quickstart)


def test_the_page_holds_the_rows_and_stays_below_three_megabytes(page: str, quickstart: Reading) -> None:
    data = json.loads(parse(page).data)
    assert len(page.encode()) < 3_000_000
    assert len(data["frontier"]) == len(quickstart.frontier) == 32
    for given, shown in zip(quickstart.frontier, data["frontier"], strict=True):
        assert {name: shown[name] for name in given} == given
    assert data["defaults"]["digits-mlp"]["leakage"] == "tpr_at_1pct"
    assert set(data["defaults"]["digits-mlp"]["strongest"].values()) == {"lira"}
    assert data["failures"][0]["tasks"] == 2


def test_the_page_names_no_address_to_load_from(page: str) -> None:
    ours = page.replace(re.findall(r'id="plotly">([^<]*)<', page)[0], "")
    assert not re.search(r"https?://", ours)
    assert not re.search(r"\{\{\w+\}\}", ours), "a slot was left open"
    assert "default-src 'none'" in ours


def test_equal_data_give_an_equal_page(page: str, quickstart: Reading) -> None:
    assert render_page(quickstart) == page


def test_hostile_names_stay_data(row: Any, reading: Any, page: str) -> None:
    rows = [row(workload=HOSTILE, method=HOSTILE, attack=HOSTILE, label=HOSTILE, params={HOSTILE: HOSTILE})]
    failures = [{"workload": HOSTILE, "method": HOSTILE, "message": HOSTILE}]
    hostile = parse(render_page(reading(rows, where=HOSTILE, failures=failures)))
    assert hostile.tags == parse(page).tags, "no name became an element"
    data = json.loads(hostile.data)
    assert data["frontier"][0]["label"] == HOSTILE
    assert data["frontier"][0]["params"] == {HOSTILE: HOSTILE}
    assert data["where"] == data["failures"][0]["message"] == HOSTILE


def test_numbers_that_json_has_not() -> None:
    text = encode_data({"a": [float("inf"), float("-inf"), float("nan")], "b": (1, None, "<&>")})
    assert json.loads(text) == {"a": ["inf", "-inf", None], "b": [1, None, "<&>"]}
    assert not set("<>&") & set(text)


def test_unknown_kinds_and_missing_curves_do_no_harm(row: Any, reading: Any) -> None:
    data = page_data(
        reading([row(guarantee_kind="new-kind"), row(epsilon=1.0, guarantee_kind=None)], rocs={})
    )
    assert data["kinds"]["new-kind"] == {"name": "other guarantee", "symbol": "hexagon"}
    assert data["kinds"]["None"]["name"] == "other guarantee"
    assert data["rocs"] == {}


def test_curves_keep_six_digits(row: Any, reading: Any) -> None:
    one = row()
    source = reading([one])
    thin = page_data(source)["rocs"][one["attack_task"]]
    assert thin["tpr"] == pytest.approx(source.rocs[one["attack_task"]].tpr, rel=1e-5)
    assert max(len(str(value)) for value in thin["fpr"]) <= 11
