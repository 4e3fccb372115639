"""The table of rows and the tooltips, on screens wide and narrow."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.report.browser import choose, points, read_table

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
ACCURACIES = {2.0: 0.8, 10.0: 0.7, 1.0: 0.9}
PARAMS = {f"parameter_{place}": 1.5 * place for place in range(20)}
LONG = "a name that is longer than the list of cells is wide, and longer"


@pytest.fixture
def page(open_page: Open, row: Any, reading: Any) -> Any:
    """Three cells with an epsilon, and one without."""
    rows = [
        row(epsilon=epsilon, accuracy=accuracy, mu=0.1, params=PARAMS)
        for epsilon, accuracy in ACCURACIES.items()
    ]
    return open_page(reading([*rows, row(method="sgd", epsilon=None, label=LONG, accuracy=0.6, mu=0.2)]))


def column(page: Any, name: str) -> list[str]:
    return [line[name] for line in read_table(page, "#table")]


def press(page: Any, name: str) -> None:
    page.locator("#table").get_by_role("button", name=name, exact=True).click()


@pytest.mark.slow
def test_a_head_sorts_up_then_down_then_not(page: Any) -> None:
    given = column(page, "cell")
    assert given == ["dp-sgd ε=2", "dp-sgd ε=10", "dp-sgd ε=1", LONG]
    orders = []
    for _ in range(3):
        press(page, "accuracy")
        sort = page.locator("#table th", has_text="accuracy").first.get_attribute("aria-sort")
        orders.append((sort, [text[:3] for text in column(page, "accuracy")]))
    assert orders[0] == ("ascending", ["60.", "70.", "80.", "90."])
    assert orders[1] == ("descending", ["90.", "80.", "70.", "60."])
    assert orders[2] == (None, ["80.", "70.", "90.", "60."])
    assert column(page, "cell") == given


def test_rows_without_a_value_come_last_whichever_way_and_numbers_are_not_texts(page: Any) -> None:
    press(page, "guarantee")
    assert column(page, "cell") == ["dp-sgd ε=1", "dp-sgd ε=2", "dp-sgd ε=10", LONG]
    press(page, "guarantee")
    assert column(page, "cell") == ["dp-sgd ε=10", "dp-sgd ε=2", "dp-sgd ε=1", LONG]


@pytest.mark.slow
def test_epsilons_of_different_kinds_are_never_put_in_one_order(
    open_page: Open, row: Any, reading: Any
) -> None:
    """docs/rules.md: kinds do not mix. Sorted by kind, in either order; rows without an epsilon come last."""
    kinds = {5.0: "pure-dp", 1.0: "approximate-dp", 2.0: "pure-dp", 8.0: "approximate-dp"}
    rows = [
        row(epsilon=epsilon, guarantee_kind=kind, label=f"{kind} {epsilon:g}", cell=str(epsilon))
        for epsilon, kind in kinds.items()
    ]
    none = row(method="pd-sgd", epsilon=None, guarantee_kind="empirical", tested="average case only")
    page = open_page(reading([none, *rows]))
    press(page, "guarantee")
    up = ["approximate-dp 1", "approximate-dp 8", "pure-dp 2", "pure-dp 5", "pd-sgd"]
    assert column(page, "cell") == up
    assert column(page, "guarantee")[-1] == "empirical; average case only"
    press(page, "guarantee")
    assert column(page, "cell") == [up[1], up[0], up[3], up[2], up[4]]


@pytest.mark.slow
def test_the_order_stays_while_choosing_and_the_keyboard_stays_where_it_is(page: Any) -> None:
    head = page.locator("#table").get_by_role("button", name="accuracy", exact=True)
    head.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert [text[:3] for text in column(page, "accuracy")] == ["90.", "80.", "70.", "60."]
    assert head.evaluate("button => button === document.activeElement")
    page.get_by_role("checkbox", name="sgd", exact=True).uncheck()
    assert [text[:3] for text in column(page, "accuracy")] == ["90.", "80.", "70."]


def test_the_two_plots_begin_at_one_height_however_long_a_name_is(page: Any) -> None:
    tops = [page.locator(f"#{plot}").bounding_box()["y"] for plot in ("frontier-plot", "roc-plot")]
    assert tops[0] == pytest.approx(tops[1], abs=1)


FITS = """() => {
    const plot = document.querySelector("#frontier-plot");
    return plot.querySelector(".main-svg").clientWidth === plot.clientWidth;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_a_tooltip_is_whole_on_every_screen(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.wait_for_function(FITS)  # plotly follows a new width after a moment, and places tooltips by it
    choose(page, "Leakage", "tpr_at_1pct")  # redrawn
    for number in range(points(page).count()):
        points(page).nth(number).hover(force=True)
        tooltip = page.locator("#frontier-plot .hoverlayer .hovertext")
        tooltip.wait_for()
        box, plot = tooltip.bounding_box(), page.locator("#frontier-plot").bounding_box()
        assert box["x"] >= plot["x"] - 1  # its border
        assert box["x"] + box["width"] <= plot["x"] + plot["width"] + 1
        page.mouse.move(0, 0)
        sync_api.expect(tooltip).to_have_count(0)
