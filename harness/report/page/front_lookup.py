"""The front of whatever the page shows, to be looked up: nothing is compared in the browser.

A reader may hide methods and kinds of guarantee. So for every row and every pair of axes the page knows its
`rivals` that beat it: the (method, kind) with a row that dominates this one. A row is on the front of what is
shown where no such rival is shown.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from harness.leakage.pareto import Point, find_beaten
from harness.report.leakage import AUC, SELECTED_BY, TPRS, Leakage
from harness.report.reading import Row

Beaten = dict[int, tuple[int, ...]]
"""By the position of a row that competes: the rivals that beat it."""


def front_data(points: Sequence[Row], utilities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By the columns of two axes, which of `sets` of rivals beats each row; null where it does not compete.

    `points` have `group` and `attack_name`: rows compete where both are equal.
    """
    rivals = {pair: number for number, pair in enumerate(sorted({_rival(row) for row in points}))}
    arenas: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, row in enumerate(points):
        if row["valid"] and row["chosen"]:
            arenas[row["group"], row["attack_name"]].append(position)
    sets: dict[tuple[int, ...], int] = {}
    beaten: dict[str, list[int | None]] = {}
    for leakage, utility in product((*TPRS, AUC), utilities):
        found: Beaten = {}
        for arena in arenas.values():
            found |= _compete(points, arena, leakage, utility, rivals)
        named = {position: sets.setdefault(by, len(sets)) for position, by in found.items()}
        beaten[f"{leakage.column} {utility['column']}"] = [named.get(place) for place in range(len(points))]
    return {
        "rivals": [list(pair) for pair in rivals],
        "sets": [list(each) for each in sets],
        "beaten": beaten,
    }


def _rival(row: Row) -> tuple[str, str]:
    """What the page hides rows by."""
    return str(row["method"]), str(row["guarantee_kind"])


def _compete(
    points: Sequence[Row],
    arena: Sequence[int],
    leakage: Leakage,
    utility: Mapping[str, Any],
    rivals: Mapping[tuple[str, str], int],
) -> Beaten:
    # What is drawn by test accuracy is selected on non-members (docs/rules.md: no selection on test data).
    judged = SELECTED_BY if utility["column"] == "accuracy" else utility["column"]
    needed, sign = (leakage.column, utility["column"], judged), 1 if utility["higher"] else -1
    able = [place for place in arena if all(points[place].get(name) is not None for name in needed)]
    values: list[Point] = [(points[place][leakage.column], sign * points[place][judged]) for place in able]
    own: dict[int, list[Point]] = defaultdict(list)
    for place, value in zip(able, values, strict=True):
        own[rivals[_rival(points[place])]].append(value)
    numbers = sorted(own)
    beats = np.array([find_beaten(values, own[number]) for number in numbers]).reshape(
        len(numbers), len(able)
    )
    return {
        place: tuple(numbers[i] for i in np.flatnonzero(column))
        for place, column in zip(able, beats.T, strict=True)
    }
