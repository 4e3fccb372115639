"""Lines of published tables: chosen by number, and looked up among what is here."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.papers.published_lines import (
    choose_lines,
    find_obstacle,
    find_table,
    has_data,
    lines_of,
    members_of,
)
from harness.papers.published_tables import Published
from workloads.errors import SpecError, UnknownName

TABLE = "dpsur-table-2"


def first(changes: Mapping[str, object], table: str = TABLE) -> Published:
    """The first line of a table, with another cell."""
    line = lines_of(table)[0]
    return replace(line, cell=line.cell.model_copy(update=changes))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3", [3]),
        ("0-2,7", [0, 1, 2, 7]),
        ("dpsur-table-2/012, 012", [12]),
        ("94-95", [94, 95]),
        (None, list(range(96))),
    ],
)
def test_lines_are_chosen_by_number_range_or_id(text: str | None, numbers: list[int]) -> None:
    assert [line.number for line in choose_lines(TABLE, text)] == numbers


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "5-4", "1-2-3", "dpsur-table-3/001", "²"])
def test_what_is_no_line_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        choose_lines(TABLE, text)
    assert refused.value.field == "--lines"


@pytest.mark.parametrize("text", ["96", "200", "300-400", "90-99", "0-99999999999"])
def test_a_line_beyond_the_last_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        choose_lines(TABLE, text)
    assert (refused.value.value, refused.value.allowed) == (text, (0, 95))


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(UnknownName) as refused:
        find_table("dpsur-tabel-2")
    assert refused.value.nearest == "dpsur-table-2"


def test_ids_are_places_in_print() -> None:
    """They are in databases and in commands of papers: a line keeps its number."""
    lines = lines_of(TABLE)
    assert [line.key for line in lines[:2]] == ["dpsur-table-2/000", "dpsur-table-2/001"]
    assert (lines[20].cell.label, lines[20].cell.on, lines[20].cell.values) == ("DPSGD", "MNIST", (95.11,))
    assert (lines[95].cell.label, lines[95].cell.on, lines[95].cell.values) == (
        "non-private",
        "IMDb",
        (79.97,),
    )


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({}, None),
        ({"workload": None}, "without a workload here: MNIST"),
        ({"workload": "mnist-vit"}, "no workload mnist-vit here"),
        ({"method": None}, "without a method here: DPSUR"),
        ({"method": "dp-adam"}, "no method dp-adam here"),
        ({"params": {"epsilon": 1, "wings": 2}}, "dpsur has no wings here"),
        ({"stated": {"wings": 2}}, None),
        ({"lost": ("sigma",)}, "what the paper used for sigma is not known"),
        ({"impossible": "it is a secret"}, "it is a secret"),
    ],
)
def test_why_a_line_cannot_be_run(changes: dict[str, object], obstacle: str | None) -> None:
    assert find_obstacle(first(changes)) == obstacle


def test_members_are_the_paper_s_else_the_workload_s_own() -> None:
    assert members_of(first({})) == 60000
    assert members_of(first({}, "dirdp-sgd-table-4")) == 30000


def test_data_that_come_with_a_package_are_here() -> None:
    assert has_data(first({"workload": "digits-mlp"}))
