"""The sections below the frontier, in a real browser."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.report.reading import Reading, read, rows_of
from tests.harness.report.browser import choose, read_table
from tests.harness.report.conftest import make_reading, quickstart_rows
from tests.harness.report.page.test_content import inversion, pictures
from tests.harness.report.test_attributes import inference
from tests.harness.report.test_reading import cell_rows, make_store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

Open = Callable[[Reading], Any]


def audit_row(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"workload": "digits-mlp", "label": "dp-sgd ε=4", "attack": "audit-one-run"}
    row |= {"canary": "gradient", "canaries": 100, "models": 4, "correct": 90, "guesses": 100}
    row |= {"epsilon_audited": 1.2, "confidence": 0.95, "epsilon_priced": 3.99, "epsilon_paper": None}
    row |= {"guarantee_kind": "approximate-dp", "meaning": "the guarantee put to the test"}
    return row | {"alarm": False, "message": None} | changes


def published_row(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "citation": "Fu et al.",
        "printed": "Table 4",
        "table_name": "t-4",
        "label": "DPSUR",
    }
    row |= {"workload": "w", "printed_workload": "W", "params": {"epsilon": 4}, "metric": "accuracy"}
    row |= {"attack": None, "unit": "%", "value": 90.1, "deviation": 0.5, "decimals": 1, "models": 3}
    row |= {"ours": 89.94, "ours_low": None, "ours_high": None, "ours_deviation": 0.21, "difference": -0.16}
    row |= {"status": "within", "reason": None, "valid": True, "differences": [], "epsilon": None}
    row |= {"epsilon_recounted": None, "epochs": None, "runnable": True}
    return row | {"matches": 1, "note": None} | changes


@pytest.fixture(scope="module")
def page(open_once: Open) -> Any:
    """A page with something in every section."""
    bare = {"ours": None, "difference": None, "ours_deviation": None, "status": "not run", "matches": 0}
    alarm = audit_row(label="dpsur", epsilon_audited=5.5, alarm=True, message="proved above the price")
    whole = {
        "audits": [audit_row(epsilon_paper=2.0), alarm],
        "reproduction": [published_row(), published_row(**bare), published_row(**bare, table_name="t-10")],
        "attributes": [inference(), inference(method="dp-sgd", gap=0.05, gap_low=0.02, gap_high=0.08)],
        "reconstructions": [inversion("a")],
        "pictures": {"a": pictures(0)},
        "methods": ["dp-sgd", "pd-sgd", "sgd"],
        "illustrated": [{"method": "pd-sgd", "workload": "w", "params": {}, "stats": {}}],
    }
    return open_once(make_reading(quickstart_rows(), **whole))


def test_alarms_are_reported_as_text(page: Any) -> None:
    assert page.locator("#audits .alarm").all_inner_texts() == [
        "ALARM: digits-mlp, dpsur: proved above the price"
    ]
    shown = read_table(page, "#audit-table")
    assert [line["alarm"] for line in shown] == ["no", "ALARM"]
    assert [shown[0][name] for name in ("audited ε ≥", "guaranteed ε", "paper's ε")] == [
        *("1.20 (95 %)", "3.99", "2.00")
    ]
    page.locator("#audit-plot").scroll_into_view_if_needed()
    sync_api.expect(page.locator("#audit-plot .bartext")).to_have_text(["ALARM"])
    assert page.locator("#audit-plot .yaxislayer-above text").all_text_contents()[1] == "ALARM dpsur"


def test_published_numbers_are_chosen_by_status_and_table(page: Any) -> None:
    page.locator("#reproduction").scroll_into_view_if_needed()
    table = page.locator("#reproduction-table tbody tr")
    sync_api.expect(table).to_have_count(1)
    (line,) = read_table(page, "#reproduction-table")
    assert line["source"] == "Fu et al., Table 4"
    assert line["method"] == "DPSUR (epsilon=4)"
    assert (line["paper"], line["ours"]) == ("90.1 ± 0.5 %", "89.94 ± 0.21 % (n=3)")
    assert (line["difference"], line["verdict"]) == ("-0.16", "within")
    choose(page, "Status", "not run")
    sync_api.expect(table).to_have_count(2)
    choose(page, "Table", "t-10")
    sync_api.expect(table).to_have_count(1)
    choose(page, "Table", "")
    choose(page, "Status", "all")
    sync_api.expect(table).to_have_count(3)


def test_methods_are_compared_at_equal_leakage(page: Any) -> None:
    section = page.locator("#calibration")
    section.scroll_into_view_if_needed()
    sync_api.expect(section.locator(".plot .scatterlayer")).to_have_count(2)
    assert section.locator("h3").all_inner_texts() == ["TPR at 1 % FPR, attack lira", "AUC, attack lira"]
    heads = section.locator("table").first.locator("th").all_inner_texts()
    assert heads == ["TPR at 1 % FPR at most", "dp-sgd", "sgd"]
    least = section.locator("table").last.locator("tbody tr").first.locator("td").all_inner_texts()
    assert least[1].startswith("79.5 % [")
    assert least[2] == "-"


def test_attribute_inference_is_shown_beside_non_members_and_imputation(page: Any) -> None:
    page.locator("#attributes").scroll_into_view_if_needed()
    lines = read_table(page, "#attributes-table")
    assert lines[0]["members"] == "75.0 % (imputation 60.0 %)"
    assert lines[0]["non-members"] == "74.5 % (imputation 60.0 %)"
    assert [line["finding"].startswith("leak") for line in lines] == [False, True]
    sync_api.expect(page.locator("#attributes-plot .scatterlayer .trace")).to_have_count(4)


def test_theory_is_drawn_where_a_method_brings_it(page: Any) -> None:
    page.locator("#theory").scroll_into_view_if_needed()
    first = page.locator("#theory-plots .plot").first
    sync_api.expect(first.locator(".scatterlayer .trace")).to_have_count(4)
    assert page.locator("#theory-plots h3").count() == 4


def test_pictures_are_shown_with_what_they_are(page: Any) -> None:
    page.locator("#pictures").scroll_into_view_if_needed()
    images = page.locator("#galleries img")
    sync_api.expect(images).to_have_count(3)
    assert images.nth(2).get_attribute("alt").startswith("sgd\nMSE 0.01, SSIM 0.80")
    page.wait_for_function("[...document.images].every(each => each.naturalWidth === 40)")


def test_sections_without_data_state_what_to_run_or_are_hidden(
    open_page: Open, reading: Any, row: Any
) -> None:
    page = open_page(reading([row()]))
    assert "--attack audit-one-run" in page.locator("#audits").inner_text()
    assert "--attack inverting-gradients" in page.locator("#pictures-note").inner_text()
    assert page.locator("#failed-note").inner_text() == "No task failed."
    for section in ("progress", "theory", "reproduction", "attributes"):
        assert not page.locator(f"#{section}").is_visible()
        assert not page.locator(f"#contents a[href='#{section}']").is_visible()


@pytest.mark.slow
def test_every_view_can_be_downloaded_as_the_database_has_it(open_page: Open, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", [*cell_rows(None), *cell_rows(4.0)])
    page = open_page(read(store))
    for view, key in (("frontier", "attack_task"), ("runs", "task"), ("overhead", "cell")):
        choose(page, "View", view)
        with page.expect_download() as download:
            page.locator("#download-view").click()
        assert download.value.suggested_filename == f"{view}.csv"
        found = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
        rows = rows_of(store, f"select * from {view}")
        assert len(found) == len(rows) > 0
        assert list(found[0]) == list(rows[0])
        given = {row[key]: row for row in rows}
        for line in found:
            for name, text in line.items():
                value = given[line[key]][name]
                if isinstance(value, float):
                    assert float(text) == value
                elif isinstance(value, str | int) and not isinstance(value, bool):
                    assert text == str(value)
                elif value is None:
                    assert text == ""
