"""Tables in LaTeX: every one compiles in one- and two-column documents and fits the column."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.report.audit import audit_table
from harness.report.calibration import calibrate, calibration_tables
from harness.report.compare import compare_table
from harness.report.frontier_table import frontier_table, hypervolume_table
from harness.report.latex import FLOATS, LINES, choose_layout, escape, set_table
from harness.report.overhead import overhead_table
from harness.report.reading import Reading
from harness.report.tables import TextTable, as_latex
from harness.report.text_table import choose_columns
from tests.harness.report.test_audit import row as audit_row
from tests.harness.report.test_compare import row as pair

NASTY = "50 % of a_b & c # $x$ {y} ~z^ \\input{/etc} [q] <r> |s| ε ± ≥ ∞ é ß 中 “t” -- 🦆 δ² x·y…"
DOCUMENT = r"""\documentclass[%s]{article}
\usepackage{array,booktabs,graphicx}
\begin{document}
Some text. \input{table}
\end{document}
"""


def compile_table(text: str, folder: Path, options: str) -> str:
    """The log of pdflatex."""
    (folder / "table.tex").write_text(text, encoding="utf-8")
    (folder / "main.tex").write_text(DOCUMENT % options, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    log = (folder / "main.log").read_text(encoding="latin-1")
    assert done.returncode == 0, log[-2000:]
    return log


def tables(reading: Reading) -> list[TextTable]:
    """One of every report that has tables."""
    nasty = TextTable(
        "x", NASTY, ("a", NASTY, "c"), ((NASTY, "1", NASTY), ("2", "", "3")), (NASTY,), (NASTY,), NASTY
    )
    wide = TextTable("wide", "w", tuple(f"column {n}" for n in range(9)), (("a word",) * 9, ("other",) * 9))
    return [
        *(frontier_table(reading), hypervolume_table(reading), overhead_table(reading)),
        *calibration_tables(calibrate(reading.frontier), "select 1"),
        compare_table([pair(), pair(axis="auc", p_holm=0.5), pair(axis="tpr_at_1pct")], "select 1"),
        audit_table([audit_row(0.0, 0.9), audit_row(4.2, 0.9, alarm=True), audit_row(3.0, None)], "select 1"),
        *(nasty, wide),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "twocolumn", "10pt,twocolumn,a4paper"])
def test_every_table_compiles_and_fits_its_column(quickstart: Reading, options: str, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no pdflatex on this machine")
    found = tables(quickstart)
    text = "\n".join(as_latex(table, f"{table.name}-{place}") for place, table in enumerate(found))
    log = compile_table(text, tmp_path, options)
    assert "Overfull" not in log
    assert "Float too large" not in log
    assert "multiply defined" not in log
    assert text.count("\\begin{table}") >= len(found)


@pytest.mark.slow
def test_chosen_columns_are_scaled_if_they_are_too_many(quickstart: Reading, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no pdflatex on this machine")
    whole = frontier_table(quickstart)
    (table,) = choose_columns([whole], list(whole.columns))
    text = as_latex(table)
    assert "\\resizebox" in text
    assert "Overfull" not in compile_table(text, tmp_path, "twocolumn")


def test_no_sign_is_left_that_pdflatex_does_not_know() -> None:
    text = escape(NASTY)
    assert all(sign.isascii() or sign in "éß" for sign in text), text
    assert r"50 \% of a\_b \& c \# \$x\$ \{y\} \textasciitilde{}z\textasciicircum{}" in text
    assert r"\textbackslash{}input\{/etc\} {[}q{]}" in text
    assert r"$\varepsilon$ $\pm$ $\geq$ $\infty$" in text
    assert r"\texttt{U+4E2D}" in text and "-{}-" in text


def test_a_narrow_table_keeps_its_natural_width() -> None:
    layout = choose_layout(("a", "b"), [("1", "2")])
    assert layout.spec == "ll" and layout.legible


def test_wrapped_columns_fill_no_more_than_the_column(quickstart: Reading) -> None:
    table = frontier_table(quickstart)
    layout = choose_layout(table.columns[:6], [row[:6] for row in table.rows])
    shares = [float(share) for share in re.findall(r"p\{([\d.]+)\\dimexpr", layout.spec)]
    assert len(shares) == 6 and sum(shares) <= 1


def test_a_long_table_continues_in_other_floats() -> None:
    rows = [(str(number), "x") for number in range((FLOATS + 1) * LINES)]
    lines = set_table("caption", choose_layout(("a", "b"), rows), "tab:x")
    assert lines.count("\\begin{table}[!htbp]") == FLOATS + 1
    assert lines.count("\\clearpage") == 1
    assert sum("(continued)" in line for line in lines) == FLOATS
    assert lines.count("\\label{tab:x}") == 1
    assert all(f"{number} & x \\\\" in lines for number in range(len(rows)))


def test_a_table_without_rows_is_one_float() -> None:
    lines = set_table("caption", choose_layout(("a",), []), "tab:x")
    assert lines.count("\\begin{table}[!htbp]") == 1


def test_default_columns_are_few_and_legible(quickstart: Reading) -> None:
    for table in tables(quickstart):
        text = as_latex(table)
        (head,) = set(re.findall(r"\\toprule\n(.*?) \\\\\n", text))
        assert head.replace(r"\&", "").count("&") < 7
        assert "\\resizebox" not in text
