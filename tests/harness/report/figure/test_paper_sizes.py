from matplotlib.figure import Figure

from harness.report.figure.paper_sizes import SCREEN, SHEETS, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import house_style


def test_panels_fill_lines_and_the_last_fills_its_own() -> None:
    sheet = Sheet(7.0, across=2, font=7.0)
    axes = lay_out(Figure(figsize=(7, 4)), 3, sheet)
    places = [each.get_subplotspec() for each in axes]
    assert [(place.rowspan.start, list(place.colspan)) for place in places if place] == [
        *[(0, [0]), (0, [1])],
        (1, [0, 1]),
    ]
    assert panel_width(axes[2]) == 2 * panel_width(axes[0])
    assert [sheet.lines(number) for number in (1, 2, 3)] == [1, 1, 2]


def test_sizes_follow_the_sheet() -> None:
    with house_style(SHEETS["1"]):
        assert scaled(9) == 8.0
        small = wrap("word " * 300, 3.3, 9)
    with house_style(SCREEN):
        assert scaled(9) == 9.0
        assert len(wrap("word " * 300, 3.3, 9).splitlines()) > len(small.splitlines())


def test_a_wrapped_text_keeps_its_lines_and_its_per_cents_together() -> None:
    with house_style():
        assert wrap("one\ntwo", 5, 9) == "one\ntwo"
        text = wrap("at 1 % " * 20, 1.0, 9)
    assert not any(line.startswith("%") for line in text.splitlines())
    assert text.split() == ["at", "1", "%"] * 20
