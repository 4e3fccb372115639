from itertools import combinations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from harness.report.figure.labels import Label, place_labels
from harness.report.figure.style import new_figure


def annotated(labels: list[Label]) -> tuple[Figure, list[Annotation]]:
    figure = new_figure(5, 4)
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    figure.draw_without_rendering()
    place_labels(figure, axes, labels)
    figure.draw_without_rendering()
    return figure, [text for text in axes.texts if isinstance(text, Annotation)]


def extent(text: Annotation) -> Bbox:
    """The box of the text alone, without its leader line."""
    return Text.get_window_extent(text)


def crowd(n: int) -> list[Label]:
    spots = np.random.default_rng(3).normal(0.5, 0.06, size=(n, 2))
    return [Label(x, y, f"ε={i}.5", (x - 0.1, x + 0.1), (y, y)) for i, (x, y) in enumerate(spots)]


def test_texts_of_crowded_points_do_not_cover_each_other() -> None:
    _, texts = annotated(crowd(12))
    boxes = [extent(text) for text in texts]
    assert len(boxes) == 12
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_texts_stay_inside_the_axes_and_off_their_points() -> None:
    corners = [Label(x, y, "corner point", (x, x), (y, y)) for x in (0.0, 1.0) for y in (0.0, 1.0)]
    figure, texts = annotated(corners)
    inside = figure.axes[0].get_window_extent()
    for label, text in zip(corners, texts, strict=True):
        box = extent(text)
        x, y = figure.axes[0].transData.transform((label.x, label.y))
        assert box.x0 >= inside.x0 - 1
        assert box.x1 <= inside.x1 + 1
        assert box.y0 >= inside.y0 - 1
        assert box.y1 <= inside.y1 + 1
        assert not box.contains(x, y)


def test_a_text_keeps_off_the_line_beside_its_point() -> None:
    point = Label(0.5, 0.5, "ε=4", (0.5, 0.5), (0.5, 0.5))
    figure = new_figure(5, 4)
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    figure.draw_without_rendering()
    place_labels(figure, axes, [point], line=[(0.5, 0.5), (1.0, 0.5)])
    figure.draw_without_rendering()
    box = axes.texts[0].get_window_extent()
    height = axes.transData.transform((0.5, 0.5))[1]
    assert box.y0 > height or box.y1 < height or box.x1 < axes.transData.transform((0.5, 0.5))[0]


def test_a_text_keeps_off_points_that_have_none() -> None:
    named = Label(0.5, 0.5, "ε=4", (0.5, 0.5), (0.5, 0.5))
    around = [
        Label(0.5 + dx, 0.5 + dy, "", (0.5 + dx, 0.5 + dx), (0.5 + dy, 0.5 + dy))
        for dx, dy in ((0.06, 0.0), (-0.06, 0.0), (0.0, 0.06))
    ]
    figure, texts = annotated([named, *around])
    (text,) = texts
    box = extent(text)
    spots = [figure.axes[0].transData.transform((label.x, label.y)) for label in around]
    assert not [spot for spot in spots if box.contains(*spot)]
