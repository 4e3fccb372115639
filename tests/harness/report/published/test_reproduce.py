"""The formats of a table: nothing in it can become markup or a command."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.report.published.reproduce import count_statuses, interval_of
from harness.report.tables import TextTable, as_latex, as_markdown, write_table

NASTY = "a|b *c* _d_ `e` <f> [g](h) 50 % & $x$ #1 {y} ~z^ \\input{/etc} ± ε\nnext"


@pytest.fixture
def table() -> TextTable:
    return TextTable(
        name="reproduce-x",
        title=NASTY,
        columns=("method", "paper"),
        rows=(("[1] plain", "96.09 ± 0.02 %"), (NASTY, "-")),
        remarks=("first", NASTY),
        protocol=("all_of it",),
        counts="2 numbers",
    )


def test_markdown_keeps_its_columns(table: TextTable) -> None:
    lines = as_markdown(table).splitlines()
    printed = [line for line in lines if line.startswith("|")]
    assert printed[:2] == ["| method | paper |", "| --- | --- |"]
    assert printed[2] == "| \\[1\\] plain | 96.09 ± 0.02 % |"
    assert len(printed) == 4
    for line in printed:
        assert line.replace("\\|", "").count("|") == 3
    assert "a\\|b \\*c\\* \\_d\\_ \\`e\\` &lt;f&gt; \\[g\\](h) 50 % &amp; $x$ \\#1" in printed[3]
    assert "next" in printed[3], "a line break stays inside the cell"
    assert "1. first" in lines
    assert "- all\\_of it" in lines


def test_latex_runs_no_command_of_a_name(table: TextTable) -> None:
    text = as_latex(table)
    rows = [line.partition(r" \addlinespace")[0] for line in text.splitlines() if r" \\" in line]
    rows = [row.replace(r"\allowbreak{}", "").replace(r"\-", "") for row in rows]
    assert rows[0] == r"method & paper \\"
    assert rows[1] == r"{[}1{]} plain & 96.09~$\pm$~0.02~\% \\"
    assert r"\_d\_" in rows[2]
    assert r"50~\% \& \$x\$ \#1 \{y\} \textasciitilde{}z\textasciicircum{}" in rows[2]
    assert r"\textbackslash{}input\{/etc\}" in rows[2]
    assert r"\input" not in text
    assert rows[2].replace(r"\&", "").count("&") == 1
    for kind in ("table", "tabular", "enumerate"):
        assert text.count(f"\\begin{{{kind}}}") == text.count(f"\\end{{{kind}}}") == 1


def test_latex_without_remarks_has_no_empty_list() -> None:
    bare = TextTable("x", "t", ("a",), (("b",),))
    assert "enumerate" not in as_latex(bare)
    assert "Remarks" not in as_markdown(bare)


def test_every_form_is_written(table: TextTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    files = write_table(table, tmp_path / "new" / "folder")
    ends = (".md", ".tex", ".csv", ".csv-metadata.json")
    assert [file.name for file in files] == [f"reproduce-x{end}" for end in ends]
    assert files[0].read_text(encoding="utf-8") == as_markdown(table)
    assert files[1].read_text(encoding="utf-8") == as_latex(table)


def test_the_count_of_nothing() -> None:
    assert count_statuses([]).startswith("0 published lines, 0 runnable, 0 run. 0 numbers: 0 within")


def test_the_interval_of_a_mean_is_that_of_student() -> None:
    row = {"ours": 94.0, "ours_low": None, "ours_high": None, "ours_deviation": 0.3, "models": 5}
    # t of 4 degrees of freedom is 2.776 at 97.5 %.
    assert interval_of(row) == pytest.approx((94 - 2.776445 * 0.3 / 5**0.5, 94 + 2.776445 * 0.3 / 5**0.5))
    assert interval_of({**row, "ours_low": 93.0, "ours_high": 96.0}) == (93.0, 96.0), "the attack's own"
    assert interval_of({**row, "models": 1}) is None and interval_of({**row, "ours_deviation": None}) is None
    assert interval_of({**row, "ours": None}) is None


def test_csv_is_plain_and_its_origin_is_beside_it(
    table: TextTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    *_, file, about = write_table(replace(table, query="select 1 -- all\nfrom x"), tmp_path)
    with file.open(encoding="utf-8", newline="") as source:
        assert list(csv.reader(source)) == [list(table.columns), *map(list, table.rows)]
    found = json.loads(about.read_text(encoding="utf-8"))
    assert about.name == f"{file.name}-metadata.json" and found["url"] == file.name
    assert found["dc:source"] == "select 1 -- all\nfrom x"
    assert found["dc:created"] == "1970-01-01T00:00:00Z"
    assert found["dc:creator"].startswith("privbench ")


def test_a_query_cannot_leave_its_comment(table: TextTable) -> None:
    hostile = replace(table, query="select 1 -- x --> <script>\n\\input{/etc} from y")
    markdown = as_markdown(hostile)
    assert markdown.count("-->") == 1 and "<script>" in markdown.split("-->")[0]
    lines = as_latex(hostile).splitlines()
    assert all(line.startswith("%") for line in lines if "from y" in line or "<script" in line)
