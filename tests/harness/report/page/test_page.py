"""The page in a real browser, opened from the disk."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.report.reading import Reading
from harness.report.units import show_whole
from tests.harness.report.browser import choose, points, read_table

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def first_page(open_once: Open, quickstart: Reading) -> Any:
    return open_once(quickstart)


@pytest.fixture
def page(first_page: Any) -> Any:
    """The quickstart's page with all controls as at the start; opened once, for it takes seconds."""
    first_page.set_viewport_size({"width": 1280, "height": 900})
    first_page.emulate_media(color_scheme="light")
    for box in first_page.get_by_role("checkbox").all():
        box.check()
    choices = {"Workload": "digits-linear", "Attack": "lira", "Utility": "accuracy", "Size of points": ""}
    for control, value in {**choices, "ROC of": ""}.items():
        choose(first_page, control, value)
    first_page.mouse.move(0, 0)
    return first_page


def await_points(page: Any, number: int) -> None:
    sync_api.expect(points(page)).to_have_count(number)


def await_curves(page: Any, number: int) -> None:
    """The line of guessing counts as one."""
    sync_api.expect(page.locator("#roc-plot .scatterlayer .trace")).to_have_count(number)


def hover(page: Any, number: int) -> str:
    """The tooltip over a point, once the previous one is gone."""
    tooltip = page.locator("#frontier-plot .hoverlayer .hovertext")
    page.mouse.move(0, 0)
    sync_api.expect(tooltip).to_have_count(0)
    box = points(page).nth(number).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tooltip.wait_for()
    return str(tooltip.text_content())


def table(page: Any) -> list[dict[str, str]]:
    return read_table(page, "#table")


def shown(reading: Reading, workload: str, attack: str) -> list[Any]:
    return [row for row in reading.frontier if (row["workload"], row["attack"]) == (workload, attack)]


@pytest.mark.slow
def test_hovering_a_point_shows_its_row(page: Any, quickstart: Reading) -> None:
    row = shown(quickstart, "digits-linear", "lira")[1]
    texts = [hover(page, number) for number in range(4)]
    (text,) = [each for each in texts if each.startswith(row["label"])]
    assert f"accuracy {show_whole(row, 'accuracy')}" in text, "in the unit of the terminal and of tables"
    assert "8 models" in text
    assert f"TPR at 1 % FPR {show_whole(row, 'tpr_at_1pct')}" in text
    assert f"AUC {show_whole(row, 'auc')}" in text
    assert f"ε = {row['epsilon']:.4g}, δ = 1e-5 (approximate DP" in text
    assert "blind check passed" in text
    assert "tuned: 3 in the recipe" in text
    assert "batch_size=64" in text


def test_unticking_a_method_or_a_guarantee_removes_its_points(page: Any) -> None:
    method = page.get_by_role("checkbox", name="dp-sgd")
    await_points(page, 4)
    method.uncheck()
    await_points(page, 1)
    assert [row["cell"] for row in table(page)] == ["sgd"]
    assert page.locator("#roc-plot .legendtext").all_text_contents() == ["sgd"]
    page.get_by_role("checkbox", name="no guarantee").uncheck()
    await_points(page, 0)
    method.check()
    await_points(page, 3)


def test_the_table_holds_the_numbers_of_the_chosen_workload_and_attack(
    page: Any, quickstart: Reading
) -> None:
    choose(page, "Workload", "digits-mlp")
    choose(page, "Attack", "loss")
    rows, seen = shown(quickstart, "digits-mlp", "loss"), table(page)
    assert len(rows) == len(seen) == 4
    for row, line in zip(rows, seen, strict=True):
        assert line["cell"] == row["label"]
        figures = {"accuracy": "accuracy", "AUC": "auc", "TPR at 1 % FPR": "tpr_at_1pct"}
        assert {name: line[name] for name in figures} == {
            name: show_whole(row, column) for name, column in figures.items()
        }, "in the units of the terminal and of tables"
        assert line["on the front"] == "yes"
        assert line["time (baseline = 1)"] == f"{row['example_overhead']:.2f} an example"
        assert line["training (baseline = 1)"] == f"{row['training_overhead']:.2f}"
    assert "digits-mlp, attack loss, 8 models a cell" in page.locator("#frontier-note").inner_text()


def test_an_unresolved_rate_states_what_it_needs(page: Any) -> None:
    choose(page, "Leakage", "tpr_at_0p1pct")
    await_points(page, 0)
    assert {row["TPR at 0.1 % FPR"] for row in table(page)} == {"needs N ≥ 10,000, has 5,752"}
    missing = page.locator("#frontier-missing").inner_text()
    assert missing.startswith("Not drawn: 4 of 4 cells. TPR at 0.1 % FPR needs N ≥ 10,000 non-members")


def test_the_strongest_of_each_cell_is_shown_unless_another_was_chosen(
    open_page: Open, row: Any, reading: Any
) -> None:
    page = open_page(reading([row(attack="strongest"), row(attack="lira"), row(attack="loss")]))
    attack = page.get_by_role("combobox", name="Attack")
    assert attack.input_value() == "strongest"
    assert "strongest of each cell" in attack.inner_text()
    choose(page, "Attack", "loss")
    choose(page, "Leakage", "auc")
    assert attack.input_value() == "loss"


def test_clicking_a_point_shows_its_curve_alone(page: Any) -> None:
    await_curves(page, 5)
    hover(page, 0)
    page.mouse.down()
    page.mouse.up()
    await_curves(page, 2)
    assert page.get_by_role("combobox", name="ROC of").input_value() == "digits-linear/sgd/lira"
    choose(page, "ROC of", "")
    await_curves(page, 5)


def test_no_button_sends_the_data_anywhere(page: Any) -> None:
    buttons = page.locator(".modebar-btn").evaluate_all("buttons => buttons.map(each => each.dataset.title)")
    assert set(buttons) == {"Download plot as a PNG", "Zoom", "Pan", "Reset axes"}
    assert page.locator("a[href^=http], form[action]").count() == 0


def test_the_rows_can_be_downloaded(page: Any) -> None:
    with page.expect_download() as download:
        page.get_by_role("button", name="Download all rows").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 32
    assert lines[0].startswith("cell,workload,method,role,label,params")
    assert '"{""batch_size"":64' in lines[1]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light"), (768, "dark")])
def test_readable_at_every_width_and_in_both_schemes(page: Any, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    deadline = time.monotonic() + 20
    while page.evaluate("document.documentElement.scrollWidth") > width:
        assert time.monotonic() < deadline, "something is wider than the screen"
    light = brightness(page)
    while light[1] != light[2] and time.monotonic() < deadline:  # the plots are redrawn a moment later
        light = brightness(page)
    assert (light[0] > light[1]) == (scheme == "light")
    assert abs(light[0] - light[1]) > 500
    assert light[1] == light[2], "the plots follow the scheme"


def brightness(page: Any) -> list[int]:
    """Of the paper, of the ink, and of a plot's title."""
    paper, ink = page.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
    title = page.locator("#frontier-plot .xtitle").evaluate("title => getComputedStyle(title).fill")
    return [sum(map(int, re.findall(r"\d+", colour))) for colour in (paper, ink, title)]


@pytest.mark.slow
def test_controls_work_from_the_keyboard(page: Any) -> None:
    page.get_by_role("checkbox", name="dp-sgd").focus()
    page.keyboard.press("Space")
    await_points(page, 1)
    page.get_by_role("combobox", name="Workload").focus()
    page.keyboard.press("ArrowDown")
    sync_api.expect(page.locator("#frontier-note")).to_contain_text("digits-mlp")


def front_labels(page: Any, leakage: str, utility: str) -> list[str]:
    """The front that the page draws on these axes."""
    gain = f"DATA.utilities.find(each => each.column === '{utility}')"
    found = page.evaluate(f"findFront(DATA.frontier, '{leakage}', {gain}).map(row => row.label)")
    return list(found)


def test_single_models_are_hollow_and_invalid_cells_crossed_out(
    open_page: Open, row: Any, reading: Any
) -> None:
    rows = [row(epsilon=1.0, models=1, accuracy=0.8), row(epsilon=8.0, valid=False, mu=0.4, accuracy=0.99)]
    page = open_page(reading([*rows, row(epsilon=4.0, mu=0.5, accuracy=0.9)]))
    assert points(page).count() == 4, "three cells and one cross"
    fills = points(page).evaluate_all("paths => paths.map(path => getComputedStyle(path).fill)")
    strokes = points(page).evaluate_all("paths => paths.map(path => getComputedStyle(path).stroke)")
    assert [fill == "none" for fill in fills] == [True, False, False, False]
    assert strokes.count("rgb(176, 0, 32)") == 1
    assert page.locator("#table tr.invalid td").first.inner_text() == "dp-sgd ε=8"
    assert front_labels(page, "auc", "accuracy") == ["dp-sgd ε=1", "dp-sgd ε=4"]


@pytest.mark.slow
def test_hostile_names_are_shown_as_they_are(open_page: Open, row: Any, reading: Any) -> None:
    name = "</script><img src=x onerror=alert(1)><b>bold</b> %{x} &amp; $y$"
    rows = [row(workload=name, method=name, attack=name, label=name, params={name: name}, epsilon=None)]
    page = open_page(reading(rows, where=name, failures=[{"workload": name, "message": name}]))
    assert hover(page, 0).startswith(name[:50])
    assert table(page)[0]["cell"] == name
    assert name in page.locator("#summary").inner_text()
    assert page.locator("#failed td").first.inner_text() == name
    assert page.get_by_role("combobox", name="Workload").input_value() == name
    page.locator("#table td button").press("Enter")
    assert page.locator("#point h3").inner_text() == name
    assert f"--workload '{name}'" in page.locator("#command").inner_text()
    choose(page, "View", "failures")
    page.locator("#raw").scroll_into_view_if_needed()
    sync_api.expect(page.locator("#raw-table td").first).to_have_text(name)
    assert page.locator("img, b").count() == 0


def test_a_page_without_rows_states_what_to_run(open_page: Open, reading: Any) -> None:
    page = open_page(reading([]))
    assert "privbench quickstart" in page.locator("#notice").inner_text()
    assert not page.locator("#controls").is_visible()
    assert page.locator("#failures").is_visible()


def test_trainings_without_attacks_show_their_cost(
    open_page: Open, quickstart: Reading, reading: Any
) -> None:
    page = open_page(reading([], overhead=quickstart.overhead))
    page.locator("#overhead").scroll_into_view_if_needed()
    sync_api.expect(page.locator("#time-plot .points path")).to_have_count(8)  # four cells, wall and CPU
    sync_api.expect(page.locator("#training-plot .points path")).to_have_count(4)
    assert page.locator("#table tbody tr").count() == 0
