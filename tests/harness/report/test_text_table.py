"""The columns of a table: few for a reader, all for programs, or the chosen ones."""

import pytest

from harness.report.tables import TextTable, as_csv, as_latex, as_markdown
from harness.report.text_table import MOST, choose_columns, reader_part, short_name
from workloads.errors import SpecError

NAMES = tuple(f"c{number}" for number in range(10))
ROWS = tuple((*(f"{line}{name}" for name in NAMES[:-1]), "same") for line in "ab")
TABLE = TextTable("x", "Title", NAMES, ROWS, ranked=("c9", "c8", *NAMES[:8]))


def test_by_default_a_reader_sees_the_first_ranked_columns_in_which_rows_differ() -> None:
    shown = reader_part(TABLE)
    assert shown.columns == ("c0", "c1", "c2", "c3", "c4", "c5", "c8")
    assert len(shown.columns) == MOST
    assert shown.rows[1] == tuple(f"b{name}" for name in shown.columns)
    assert shown.same == "c9: same"
    assert shown.left_out == "In the CSV only: c6, c7."
    assert "| c0 | c1 | c2 | c3 | c4 | c5 | c8 |" in as_markdown(TABLE)
    assert "c6, c7" in as_markdown(TABLE)
    assert r"\caption{Title (c9: same)}" in as_latex(TABLE)


def test_a_csv_has_all_by_default() -> None:
    assert as_csv(TABLE).splitlines()[0] == ",".join(NAMES)


def test_every_format_has_the_chosen_columns_in_the_given_order() -> None:
    (table,) = choose_columns([TABLE], ["c7", "c1"])
    assert as_csv(table).splitlines() == ["c7,c1", "ac7,ac1", "bc7,bc1"]
    assert "| c7 | c1 |" in as_markdown(table)
    assert r"c7 & c1 \\" in as_latex(table)


def test_a_small_table_is_shown_whole() -> None:
    small = TextTable("x", "t", ("a", "b"), (("1", "s"), ("2", "s")))
    assert reader_part(small).columns == ("a", "b")


@pytest.mark.parametrize(
    ("column", "short"),
    [
        ("TPR at 0.1 % FPR", "tpr-at-0.1-fpr"),
        ("training time (baseline = 1)", "training-time"),
        ("ε computed", "epsilon-computed"),
        ("dp-sgd", "dp-sgd"),
        ("Holm p", "holm-p"),
    ],
)
def test_columns_have_short_names(column: str, short: str) -> None:
    assert short_name(column) == short
    (table,) = choose_columns([TextTable("x", "t", (column, "b"), ())], [short])
    assert table.chosen == (column,)


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    other = TextTable("y", "t", ("ε", "c1"), ())
    with pytest.raises(SpecError) as caught:
        choose_columns([TABLE, other], ["c1", "nonsense"])
    assert (caught.value.value, caught.value.allowed) == ("nonsense", (*NAMES, "epsilon"))


def test_a_table_without_the_chosen_columns_keeps_its_default() -> None:
    other = TextTable("y", "t", ("k",), (("v",),))
    assert [table.chosen for table in choose_columns([TABLE, other], ["k"])] == [(), ("k",)]
