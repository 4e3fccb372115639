"""A lookup table of fronts for the page: nothing is compared in the browser.

A reader may hide methods and kinds of guarantee. So for every row and every pair of axes the page has its
`rivals`: every (method, kind) with a row that dominates this one. A row is on the front of the shown rows if
no rival is shown.
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
"""By the index of a row that competes: its rivals."""


def front_data(points: Sequence[Row], utilities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By the columns of two axes, the index of each row's rivals in `sets`; null if it does not compete.

    `points` have `group` and `attack_name`: rows compete if both are equal.
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
    """The (method, kind) that the page hides rows by."""
    return str(row["method"]), str(row["guarantee_kind"])


def _compete(
    points: Sequence[Row],
    arena: Sequence[int],
    leakage: Leakage,
    utility: Mapping[str, Any],
    rivals: Mapping[tuple[str, str], int],
) -> Beaten:
    # Points drawn by test accuracy are selected on non-members (docs/rules.md: no selection on test data).
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
