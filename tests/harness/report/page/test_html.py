"""The page as text: its content, and that no name becomes markup."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

from harness.report.page.html import PLOTLY, encode_data, render_page
from harness.report.reading import Reading

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


def data_of(page: str) -> Any:
    """The page's data, unpacked."""
    return json.loads(gzip.decompress(base64.b64decode(parse(page).data)))


def rows_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], values, strict=True)) for values in table["rows"]]


@pytest.fixture(scope="module")
def page(quickstart: Reading) -> str:
    return render_page(quickstart)


def test_the_page_holds_the_rows_and_stays_below_three_megabytes(page: str, quickstart: Reading) -> None:
    data = data_of(page)
    rows = rows_of(data["views"]["frontier"])
    assert len(page.encode()) < 3_000_000
    assert len(rows) == len(quickstart.frontier) == 32
    for given, shown in zip(quickstart.frontier, rows, strict=True):
        assert shown == {name: value for name, value in given.items() if name != "group"}
    assert data["defaults"]["digits-mlp"]["leakage"] == "tpr_at_1pct"
    assert data["defaults"]["digits-mlp"]["attack"] == "lira"
    assert data["failed"][0]["tasks"] == 2


def test_the_page_names_no_address_to_load_from(page: str) -> None:
    plotly = (files("harness.report.page") / PLOTLY).read_text(encoding="utf-8")
    assert page.count(plotly) == 1
    ours = page.replace(plotly, "")
    assert not re.search(r"https?://", ours)
    assert not re.search(r"\{\{\w+\}\}", ours), "a slot was left open"
    assert "default-src 'none'" in ours


def test_plotly_stands_in_the_page_as_code_and_cannot_end_it(page: str) -> None:
    plotly = (files("harness.report.page") / PLOTLY).read_text(encoding="utf-8")
    assert not re.search(r"</script|<!--", plotly, re.IGNORECASE)
    assert parse(page).tags[-3:] == ["script"] * 3


def test_equal_data_give_an_equal_page(page: str, quickstart: Reading) -> None:
    assert render_page(quickstart) == page


def test_a_page_on_disk_makes_no_requests_and_a_live_one_only_to_its_server(
    page: str, quickstart: Reading
) -> None:
    live = render_page(quickstart, live=True)
    assert "connect-src" not in page
    assert "default-src 'none'; connect-src 'self';" in live
    assert "<body>" in page
    assert "<body data-live>" in live
    assert data_of(live) == data_of(page)


def test_hostile_names_stay_data(row: Any, reading: Any, page: str) -> None:
    rows = [row(workload=HOSTILE, method=HOSTILE, attack=HOSTILE, label=HOSTILE, params={HOSTILE: HOSTILE})]
    failures = [{"workload": HOSTILE, "method": HOSTILE, "message": HOSTILE}]
    hostile = render_page(reading(rows, where=HOSTILE, failures=failures))
    assert parse(hostile).tags == parse(page).tags, "no name became an element"
    data = data_of(hostile)
    (point,) = rows_of(data["views"]["frontier"])
    assert point["label"] == HOSTILE
    assert point["params"] == {HOSTILE: HOSTILE}
    assert data["where"] == data["failed"][0]["message"] == HOSTILE


def test_without_rows_the_page_states_why_even_without_scripts(reading: Any, page: str) -> None:
    empty = render_page(reading([], where=HOSTILE))
    assert "No row of frontier matches the condition\n&lt;/script&gt;" in empty
    assert parse(empty).tags == parse(page).tags


def test_numbers_that_json_has_not() -> None:
    text = encode_data({"a": [float("inf"), float("-inf"), float("nan")], "b": (1, None, "<&>")})
    assert json.loads(text) == {"a": ["inf", "-inf", None], "b": [1, None, "<&>"]}
