from typing import Any

import numpy as np
from matplotlib.collections import LineCollection

from harness.report.figure.artists import Bars, Marks
from harness.report.figure.panels import spread
from harness.report.figure.style import new_figure


def test_points_that_look_alike_are_one_artist() -> None:
    axes: Any = new_figure(3, 3).add_subplot()
    marks = Marks()
    for x, colour in ((0.0, "red"), (1.0, "blue"), (2.0, "red")):
        marks.add(x, 2 * x, marker="o", mfc=colour)
    marks.draw(axes)
    found = [
        (line.get_markerfacecolor(), np.asarray(line.get_xydata()).tolist()) for line in axes.get_lines()
    ]
    assert found == [("red", [[0.0, 0.0], [2.0, 4.0]]), ("blue", [[1.0, 2.0]])]
    assert {line.get_linestyle() for line in axes.get_lines()} == {"None"}


def test_bars_are_one_artist_and_the_axes_reach_over_them() -> None:
    axes: Any = new_figure(3, 3).add_subplot()
    bars = Bars()
    bars.add((-5.0, 0.0), (5.0, 0.0), "red")
    bars.add((0.0, 10.0), (0.0, 20.0), "blue")
    bars.draw(axes, linewidths=2)
    (drawn,) = axes.collections
    assert isinstance(drawn, LineCollection)
    assert len(drawn.get_segments()) == 2
    assert axes.get_xlim()[0] < -5 < 5 < axes.get_xlim()[1]
    assert axes.get_ylim()[0] < 0 < 20 < axes.get_ylim()[1]


def test_thinned_rows_keep_their_ends_and_their_order() -> None:
    rows = [{"place": place} for place in range(100)]
    assert [row["place"] for row in spread(rows, 4)] == [0, 33, 66, 99]
    assert spread(rows[:3], 4) == rows[:3]
    assert spread([], 4) == []
