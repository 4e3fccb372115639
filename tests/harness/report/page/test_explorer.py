"""The frontier explorer in a real browser: its axes, and the details of a point."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from harness.report.leakage import AUC, rows_on_front
from harness.report.reading import Reading
from tests.harness.report.browser import choose, points, read_table
from tests.harness.report.conftest import frontier_row, make_reading

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

Open = Callable[[Reading], Any]

LEAKS = (0.5, 0.52, 0.52, 0.55, 0.6, 0.6, 0.7)
GAINS = (0.70, 0.80, 0.80, 0.75, 0.90, 0.85, 0.90)
"""Among them equal points, and points that are beaten in one axis alone."""


def front(page: Any, leakage: str, utility: str) -> list[str]:
    gain = f"DATA.utilities.find(each => each.column === '{utility}')"
    found = page.evaluate(f"findFront(DATA.frontier, '{leakage}', {gain}).map(row => row.cell)")
    return list(found)


def facts(page: Any) -> dict[str, str]:
    """The panel's facts about the chosen point."""
    names = page.locator("#point dt").all_inner_texts()
    return dict(zip(names, page.locator("#point dd").all_inner_texts(), strict=True))


def run_rows(cell: str, count: int) -> list[dict[str, Any]]:
    made = {"git": "c0ffee", "torch": "2.13.0", "privbench": "0.1.0"}
    return [
        {"task": f"{index:032x}", "cell": cell, "index": index, "test_accuracy": 0.9 + index / 100,
         "train_accuracy": 0.99, "test_loss": 0.3, "epsilon": 3.98, "train_seconds": 1.5, "host": "node7",
         "device": "cpu", "threads": 1, "finished": None, "provenance": made}
        for index in range(count)
    ]  # fmt: skip


ROWS = [
    frontier_row(
        cell=str(place), label=str(place), attack_task=str(place), auc=leak, accuracy=gain,
        train_seconds=1 - gain, training_overhead=(1.0, 4.0, None)[place % 3],
        valid=None if place == 6 else True,
    )
    for place, (leak, gain) in enumerate(zip(LEAKS, GAINS, strict=True))
]  # fmt: skip


@pytest.fixture(scope="module")
def axes(open_once: Open) -> Any:
    """A page whose front has ties."""
    page = open_once(make_reading(ROWS))
    choose(page, "Leakage", "auc")
    return page


def test_the_front_equals_that_of_the_figures_on_every_axis(axes: Any) -> None:
    expected = [row["cell"] for row in rows_on_front(ROWS, AUC)]
    assert expected == ["0", "1", "2", "4"]
    assert front(axes, "auc", "accuracy") == expected
    assert front(axes, "auc", "train_seconds") == expected, "less is better, and less is 1 - accuracy"
    choose(axes, "Utility", "train_seconds")
    title = axes.locator("#frontier-plot .ytitle")
    sync_api.expect(title).to_have_text("seconds of training (less is better)")
    shown = read_table(axes, "#table")
    assert [line["cell"] for line in shown if line["on the front"] == "yes"] == expected
    heights = [points(axes).nth(place).bounding_box()["y"] for place in range(len(ROWS))]
    assert heights[4] == min(heights), "the least is on top"
    choose(axes, "Utility", "accuracy")


def test_the_front_is_over_the_methods_that_are_shown(open_page: Open) -> None:
    rows = [
        frontier_row(cell="beats", attack_task="beats", label="beats", method="sgd", auc=0.5, accuracy=0.9),
        frontier_row(
            cell="beaten", attack_task="beaten", label="beaten", method="noisy", auc=0.6, accuracy=0.8
        ),
    ]
    page = open_page(make_reading(rows))
    choose(page, "Leakage", "auc")

    def on_front() -> dict[str, str]:
        return {line["cell"]: line["on the front"] for line in read_table(page, "#table")}

    assert on_front() == {"beats": "yes", "beaten": "no"}
    page.get_by_role("checkbox", name="sgd", exact=True).uncheck()
    assert on_front() == {"beaten": "yes"}


def test_the_size_of_points_shows_a_third_axis(axes: Any) -> None:
    assert axes.locator("#sizes").inner_text() == ""
    choose(axes, "Size of points", "training_overhead")
    sizes = axes.evaluate("document.getElementById('frontier-plot').data[1].marker.size")
    assert sizes[1] == 2 * sizes[0], "areas are as the values"
    assert sizes[2] < sizes[0], "what is not known is a dot"
    legend = axes.locator("#sizes").inner_text()
    assert " ".join(legend.split()) == "Area: time of the training (baseline = 1) 1 2 4"
    choose(axes, "Size of points", "")


POINT = frontier_row(
    attack="loss", models=2, params={"epsilon": 4, "noise_multiplier": 1.25, "steps": 30}, canary=None,
    solved="noise_multiplier", method_version="4", attack_version="2", seed=0,
)  # fmt: skip
OTHER = POINT | {"cell": "other", "attack_task": "other", "accuracy": 0.8}
OTHER["params"] = {**POINT["params"], "steps": 60}


@pytest.fixture
def page(opened_page: Any) -> Any:
    """A page of two cells with one label; no point is chosen."""
    choose(opened_page, "ROC of", "")
    opened_page.mouse.move(0, 0)
    return opened_page


@pytest.fixture(scope="module")
def opened_page(open_once: Open) -> Any:
    return open_once(make_reading([POINT, OTHER], runs=run_rows(POINT["cell"], 3)))


def test_a_point_shows_its_provenance_command_and_runs(page: Any) -> None:
    sync_api.expect(points(page)).to_have_count(2)
    box = points(page).first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    hover = page.locator("#frontier-plot .hoverlayer .hovertext")
    hover.wait_for()
    for text in ("host node7", "git c0ffee", "method 4, attack 2; seed 0", "privbench run --workload"):
        assert text in hover.text_content()
    page.mouse.down()
    page.mouse.up()
    sync_api.expect(page.locator("#point h3")).to_have_text("dp-sgd ε=4 steps=30")
    found = facts(page)
    assert found["host"] == "node7"
    assert found["code"] == "privbench 0.1.0, torch 2.13.0, git c0ffee"
    assert found["parameters"] == "epsilon=4, noise_multiplier=1.25, steps=30"
    assert page.locator("#command").inner_text() == (
        "privbench run --workload digits-mlp --method dp-sgd --epsilon 4 --n-train 718 --models 2 "
        "--attack loss --set steps=30"
    )
    runs = [line.split("\t") for line in page.locator("#runs tbody tr").all_inner_texts()]
    assert [line[:3] for line in runs] == [["0", "90.0 %", "99.0 %"], ["1", "91.0 %", "99.0 %"]]
    assert page.locator("#runs code").nth(1).get_attribute("title") == f"{1:032x}"


def test_the_command_can_be_copied(page: Any) -> None:
    page.locator("#table td button").first.click()
    page.get_by_role("button", name="Copy").click()
    # If a browser denies access to the clipboard, the command is selected instead.
    sync_api.expect(page.locator("#copy")).to_have_text(re.compile(r"^(Copied|Selected: press Ctrl\+C)$"))


def test_the_whole_way_by_keyboard(page: Any) -> None:
    page.get_by_role("link", name="Rows", exact=True).press("Enter")
    assert page.url.endswith("#rows")
    page.locator("#table td button").last.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "point"
    assert page.locator("#point h3").inner_text() == "dp-sgd ε=4 steps=60"
    sync_api.expect(page.locator("#roc-plot .scatterlayer .trace")).to_have_count(2)
    page.locator("#close-point").press("Enter")
    assert page.evaluate("document.activeElement.dataset.mark") == "row other"
    sync_api.expect(page.locator("#roc-plot .scatterlayer .trace")).to_have_count(3)


def test_cells_of_one_label_are_distinguished(page: Any) -> None:
    assert [line["cell"] for line in read_table(page, "#table")] == [
        "dp-sgd ε=4 steps=30",
        "dp-sgd ε=4 steps=60",
    ]
