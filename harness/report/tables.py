"""Text tables for papers: Markdown and LaTeX in which no name can become markup, and CSV for programs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.report.metadata import Imprint
from harness.results.table import csv_text


@dataclass(frozen=True)
class TextTable:
    """A report as plain text in cells, from which every format is made."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    """Numbered from 1; the last column of a row refers to its own."""
    protocol: tuple[str, ...] = ()
    counts: str = ""
    heading: str = "What differs for the whole table"
    """The heading of the protocol."""
    query: str = ""
    """The SQL behind its rows."""

    @property
    def imprint(self) -> Imprint:
        """Its provenance."""
        return Imprint(self.title, self.query)


def write_table(table: TextTable, out: Path) -> list[Path]:
    """Write the table as Markdown, LaTeX and CSV into `out`."""
    return write_tables(table.name, [table], out)


def write_tables(name: str, tables: Sequence[TextTable], out: Path) -> list[Path]:
    """Write tables below each other, as one file of Markdown and one of LaTeX called `name`.

    A CSV holds one table, so several are `name`-1.csv and so on. A comment would break parsers, so its
    provenance is next to it in FILE.csv-metadata.json, as in the W3C's "CSV on the Web" (2015).
    """
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for suffix, render in ((".md", as_markdown), (".tex", as_latex)):
        files.append(out / f"{name}{suffix}")
        _write(files[-1], "\n".join(render(table) for table in tables))
    for number, table in enumerate(tables, 1):
        stem = name if len(tables) == 1 else f"{name}-{number}"
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
LATEX: Mapping[int, str] = {
    **{ord(sign): f"\\{sign}" for sign in "&%$#_{}"},
    ord("\\"): r"\textbackslash{}",
    ord("~"): r"\textasciitilde{}",
    ord("^"): r"\textasciicircum{}",
    ord("<"): r"\textless{}",
    ord(">"): r"\textgreater{}",
    ord("|"): r"\textbar{}",
    ord("["): "{[}",  # a bracket at the start of a line would be an argument of the previous row
    ord("]"): "{]}",
    ord("±"): r"$\pm$",
    ord("ε"): r"$\varepsilon$",
}


def as_markdown(table: TextTable) -> str:
    """A table of GitHub's Markdown with its remarks; no name can become markup."""
    # Two hyphens could end the comment, and SQL's own comments begin with them.
    about = [line.replace("--", "- -") for line in table.imprint.lines()]
    lines = [f"## {_clean(table.title, MARKDOWN)}", "", "<!--", *about, "-->", "", _pipes(table.columns)]
    lines.append(_pipes(["---"] * len(table.columns), escaped=True))
    lines += [_pipes(row) for row in table.rows]
    lines += ["", _clean(table.counts, MARKDOWN)]
    if table.remarks:
        lines += ["", "Remarks:", ""]
        lines += [f"{n}. {_clean(text, MARKDOWN)}" for n, text in enumerate(table.remarks, 1)]
    if table.protocol:
        lines += ["", f"{_clean(table.heading, MARKDOWN)}:", ""]
        lines += [f"- {_clean(text, MARKDOWN)}" for text in table.protocol]
    return "\n".join(lines) + "\n"


def as_latex(table: TextTable) -> str:
    """A longtable (packages longtable and booktabs) with its remarks below; no name can become a command."""
    columns = len(table.columns)
    lines = [
        *(f"% {line}" for line in table.imprint.lines()),
        "% \\usepackage{longtable,booktabs}",
        f"\\begin{{longtable}}{{{'l' * columns}}}",
        f"\\caption{{{_clean(table.title, LATEX)}}} \\\\",
        "\\toprule",
        _ampersands(table.columns),
        "\\midrule",
        "\\endhead",
        *(_ampersands(row) for row in table.rows),
        "\\bottomrule",
        "\\end{longtable}",
        _clean(table.counts, LATEX),
    ]
    for kind, texts in (("enumerate", table.remarks), ("itemize", table.protocol)):
        if texts:
            items = [f"\\item {_clean(text, LATEX)}" for text in texts]
            lines += [f"\\begin{{{kind}}}", *items, f"\\end{{{kind}}}"]
    return "\n".join(lines) + "\n"


def as_csv(table: TextTable) -> str:
    """The columns and the rows as printed (RFC 4180), without remarks."""
    return csv_text(table.columns, table.rows)


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


def _pipes(cells: Sequence[str], escaped: bool = False) -> str:
    return "| " + " | ".join(cell if escaped else _clean(cell, MARKDOWN) for cell in cells) + " |"


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(_clean(cell, LATEX) for cell in cells) + r" \\"


def _clean(text: str, signs: Mapping[int, str]) -> str:
    """One line, with the format's special characters escaped."""
    return " ".join(text.split()).translate(dict(signs))
