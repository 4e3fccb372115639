"""The page's section on tunes, and how untuned cells and studies are drawn, in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.report.page.tune_section import tune_data
from harness.report.reading import Reading
from tests.harness.report.browser import read_table
from tests.harness.report.conftest import make_reading, quickstart_rows
from tests.harness.tuned import make_tune

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

RECORD = make_tune(methods=("dp-sgd", "dp-gan"), epsilons=(1.0,), trials=4, studies=2, confirm=1)


def test_a_block_holds_every_trial_on_its_axes() -> None:
    first, second = tune_data({"fair": RECORD})["blocks"]
    assert [each["name"] for each in first["axes"]] == [
        *("step (sets learning_rate)", "rate (sets batch_size)", "epochs (sets steps)", "clip")
    ]
    assert len(first["points"]) == 8 and {len(each["places"]) for each in first["points"]} == {4}
    assert second["axes"][-1]["choices"] == ["1", "2", "3"]
    assert second["warnings"] == [RECORD.searches[1].warnings[0].text]


def tuned_reading(**changes: Any) -> Reading:
    """The quickstart's rows, of which dp-sgd at epsilon 4 is the median study of a tune and sgd untuned."""
    rows = [
        {**row, "tuned": "no"}
        if row["method"] == "sgd"
        else {**row, "tuned": "16 x 3", "trials": 16, "studies": 3}
        for row in quickstart_rows()
    ]
    for row in rows:
        if row["epsilon_asked"] == 4:
            low, high = row["accuracy"] - 0.05, row["accuracy"] + 0.01
            row |= {"study": 2, "median_study": True, "accuracy_study_low": low, "accuracy_study_high": high}
        if row["epsilon_asked"] == 8:
            row |= {"study": 1, "median_study": False, "chosen": False}
    return make_reading(rows, **changes)


@pytest.mark.browser
def test_every_search_is_drawn_with_its_table(open_page: Callable[[Reading], Any]) -> None:
    page = open_page(tuned_reading(tunes={"fair": RECORD}))
    page.locator("#tunes").scroll_into_view_if_needed()
    sync_api.expect(page.locator("#tunes-plots .plot .main-svg").first).to_be_visible()
    assert page.locator("#tunes-plots h3").count() == 2
    rows = read_table(page, "#tunes-table")
    assert [row["method"] for row in rows] == ["dp-sgd", "dp-gan"]
    sync_api.expect(page.locator("#tunes-plots .plot").first.locator(".subplot")).to_have_count(5)


@pytest.mark.browser
def test_without_a_tune_the_section_is_hidden(open_page: Callable[[Reading], Any]) -> None:
    page = open_page(tuned_reading())
    assert not page.locator("#tunes").is_visible()


@pytest.mark.browser
def test_untuned_cells_have_dashes_and_studies_a_range(open_page: Callable[[Reading], Any]) -> None:
    page = open_page(tuned_reading())
    points = page.locator("#frontier-plot .points path")
    sync_api.expect(points).to_have_count(3)  # sgd, and dp-sgd at 1 and 4: not the other study
    dashes = points.evaluate_all("all => all.map((each) => each.style.strokeDasharray)")
    assert sorted(bool(each) for each in dashes) == [False, False, True]
    assert "sgd (not tuned)" in page.locator("#methods").inner_text()
    assert "Not tuned: sgd" in page.locator("#frontier-tuning").inner_text()
    page.locator("#methods input").first.uncheck()
    page.locator("#methods input").first.check()
    dashes = points.evaluate_all("all => all.map((each) => each.style.strokeDasharray)")
    assert sum(map(bool, dashes)) == 1
