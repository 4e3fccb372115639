"""The page's lookup table gives the front of the figures, whatever the reader hides."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.leakage import AUC, TPRS, Leakage, rows_on_front
from harness.report.page.content import UTILITIES
from harness.report.page.front_lookup import front_data
from harness.report.reading import Row

METHODS, KINDS = ("plain", "noisy"), ("none", "approximate-dp")
AXES = (*TPRS, AUC)
GRID = st.none() | st.integers(0, 3).map(lambda number: number / 3)
"""Few values, so that ties are common."""


@st.composite
def points(draw: st.DrawFn) -> list[Row]:
    count = draw(st.integers(0, 10))
    return [
        {
            "cell": str(place),
            "group": draw(st.sampled_from(("one", "two"))),
            "attack_name": draw(st.sampled_from(("loss", "lira"))),
            "method": draw(st.sampled_from(METHODS)),
            "guarantee_kind": draw(st.sampled_from((*KINDS, None))),
            "valid": draw(st.sampled_from((True, True, True, False, None))),
            "chosen": draw(st.sampled_from((True, True, False))),
            **{axis.column: draw(GRID) for axis in AXES},
            **{str(each["column"]): draw(GRID) for each in UTILITIES},
            "validation_accuracy": draw(GRID),
        }
        for place in range(count)
    ]


def looked_up(
    data: dict[str, Any], rows: list[Row], axes: str, methods: set[str], kinds: set[str]
) -> set[str]:
    """As in charts.js: the rows that no shown rival dominates."""
    shown = [method not in methods and kind not in kinds for method, kind in data["rivals"]]
    return {
        row["cell"]
        for row, by in zip(rows, data["beaten"][axes], strict=True)
        if row["method"] not in methods and str(row["guarantee_kind"]) not in kinds
        if by is not None and not any(shown[rival] for rival in data["sets"][by])
    }


@pytest.mark.slow
@given(
    rows=points(),
    methods=st.sets(st.sampled_from(METHODS)),
    kinds=st.sets(st.sampled_from((*KINDS, "None"))),
    leakage=st.sampled_from(AXES),
)
def test_the_front_of_what_is_shown(
    rows: list[Row], methods: set[str], kinds: set[str], leakage: Leakage
) -> None:
    data = front_data(rows, UTILITIES)
    shown = [row for row in rows if row["method"] not in methods and str(row["guarantee_kind"]) not in kinds]
    arenas = [[row for row in shown if _arena(row) == arena] for arena in {_arena(row) for row in shown}]
    for utility in UTILITIES:
        column, sign = str(utility["column"]), 1 if utility["higher"] else -1
        # As accuracies, which is what the figures draw.
        expected = {
            row["cell"]
            for arena in arenas
            for row in rows_on_front([_as_accuracy(each, column, sign) for each in arena], leakage)
        }
        assert looked_up(data, rows, f"{leakage.column} {column}", methods, kinds) == expected


def _arena(row: Row) -> tuple[str, str]:
    return row["group"], row["attack_name"]


def _as_accuracy(row: Row, column: str, sign: int) -> Row:
    if column == "accuracy" or row[column] is None:
        return {**row, "accuracy": row[column]}
    return {**row, "accuracy": row[column], "validation_accuracy": sign * row[column]}


def test_a_page_without_rows_has_nothing_to_look_up() -> None:
    data = front_data([], UTILITIES)
    assert (data["rivals"], data["sets"]) == ([], [])
    assert set(map(tuple, data["beaten"].values())) == {()}
