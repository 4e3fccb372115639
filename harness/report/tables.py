"""Text tables for papers: Markdown and LaTeX in which no name can become markup, and CSV for programs."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.report.latex import Layout, choose_layout, escape, set_table
from harness.report.text_table import MOST, Shown, TextTable, chosen_part, reader_part
from harness.results.table import csv_text

__all__ = ["RENDER", "TextTable", "as_csv", "as_latex", "as_markdown", "write_table", "write_tables"]


def write_table(table: TextTable, out: Path) -> list[Path]:
    """Write the table as Markdown, LaTeX and CSV into `out`."""
    return write_tables(table.name, [table], out)


def write_tables(name: str, tables: Sequence[TextTable], out: Path) -> list[Path]:
    """Write tables below each other, as one file of Markdown and one of LaTeX called `name`.

    A CSV holds one table, so several are `name`-1.csv and so on. A comment would break parsers, so its
    provenance is next to it in FILE.csv-metadata.json, as in the W3C's "CSV on the Web" (2015).
    """
    out.mkdir(parents=True, exist_ok=True)
    stems = [name] if len(tables) == 1 else [f"{name}-{number}" for number in range(1, len(tables) + 1)]
    files = [out / f"{name}.md", out / f"{name}.tex"]
    _write(files[0], "\n".join(map(as_markdown, tables)))
    _write(files[1], "\n".join(map(as_latex, tables, stems)))
    for stem, table in zip(stems, tables, strict=True):
        files += [out / f"{stem}.csv", out / f"{stem}.csv-metadata.json"]
        _write(files[-2], as_csv(table))
        _write(files[-1], csv_metadata(table, files[-2].name))
    return files


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


MARKDOWN = {ord(sign): f"\\{sign}" for sign in "\\`*_[]|~#"} | {
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord("&"): "&amp;",
}


def as_markdown(table: TextTable) -> str:
    """A table of GitHub's Markdown with its remarks; no name can become markup."""
    # Two hyphens could end the comment, and SQL's own comments begin with them.
    about = [line.replace("--", "- -") for line in table.imprint.lines()]
    shown = reader_part(table)
    lines = [f"## {_clean(table.title, MARKDOWN)}", "", "<!--", *about, "-->", "", _pipes(shown.columns)]
    lines.append(_pipes(["---"] * len(shown.columns), escaped=True))
    lines += [_pipes(row) for row in shown.rows]
    lines += ["", _clean(_about(table, shown), MARKDOWN)]
    if table.remarks:
        lines += ["", "Remarks:", ""]
        lines += [f"{n}. {_clean(text, MARKDOWN)}" for n, text in enumerate(table.remarks, 1)]
    if table.protocol:
        lines += ["", f"{_clean(table.heading, MARKDOWN)}:", ""]
        lines += [f"- {_clean(text, MARKDOWN)}" for text in table.protocol]
    return "\n".join(lines) + "\n"


def as_latex(table: TextTable, name: str | None = None) -> str:
    """Floats with a tabular (harness.report.latex) and its remarks below; no name can become a command.

    Its label is `tab:NAME`. Notes on the whole table are comments, for its caption.
    """
    shown, layout = fit_column(table)
    caption = f"{table.title} ({shown.same})" if shown.same else table.title
    about = [*table.imprint.lines(), "\\usepackage{array,booktabs,graphicx}", _about(table, shown)]
    lines = [f"% {_clean(line)}" for line in [*about, *table.protocol]]
    label = "tab:" + re.sub(r"[^A-Za-z0-9-]", "-", name or table.name)
    lines += set_table(caption, layout, label)
    if table.remarks:
        items = [f"\\item {escape(text)}" for text in table.remarks]
        head = f"{{\\footnotesize\\noindent Remarks on Table~\\ref{{{label}}}:"
        lines += [head, "\\begin{enumerate}", *items, "\\end{enumerate}", "}"]
    return "\n".join(lines) + "\n"


def fit_column(table: TextTable) -> tuple[Shown, Layout]:
    """The columns for LaTeX: as many as a column of a paper holds in legible type, or those asked for."""
    for most in range(MOST, 0, -1):
        shown = reader_part(table, most)
        layout = choose_layout(shown.columns, shown.rows)
        if layout.legible or table.chosen:
            break
    return shown, layout


def as_csv(table: TextTable) -> str:
    """The columns and the rows (RFC 4180), without remarks; numbers are fractions as in the views."""
    part = chosen_part(replace(table, rows=table.plain or table.rows))
    return csv_text(part.columns, part.rows)


def csv_metadata(table: TextTable, file: str) -> str:
    """The provenance of a CSV file, in the vocabulary of CSV on the Web and Dublin Core."""
    imprint = table.imprint
    about = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": file,
        "dc:title": imprint.title,
        "dc:creator": imprint.maker,
        "dc:created": imprint.date,
        "dc:source": imprint.query,
        "dc:description": " ".join([table.counts, *table.remarks, *table.protocol]).strip(),
    }
    return json.dumps(about, ensure_ascii=False, indent=2) + "\n"


RENDER: Mapping[str, Callable[[TextTable], str]] = {"md": as_markdown, "latex": as_latex, "csv": as_csv}


def _about(table: TextTable, shown: Shown) -> str:
    """The counts, and what the shown columns leave out."""
    same = f"All rows: {shown.same}." if shown.same else ""
    return " ".join(text for text in (table.counts, same, shown.left_out) if text)


def _pipes(cells: Sequence[str], escaped: bool = False) -> str:
    return "| " + " | ".join(cell if escaped else _clean(cell, MARKDOWN) for cell in cells) + " |"


def _clean(text: str, signs: Mapping[int, str] | None = None) -> str:
    """One line, with the format's special characters escaped."""
    return " ".join(text.split()).translate(dict(signs or {}))
