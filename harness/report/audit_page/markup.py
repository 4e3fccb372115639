"""The HTML page of a leakage audit: one file without scripts; all names are text."""

import base64
import io
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG

from harness.audit.leakage_audit import LeakageAudit
from harness.report.audit_page import statements
from harness.report.audit_page.plots import draw_forest, draw_roc
from harness.report.figure.style import house_style, lay_out_once, new_figure
from harness.report.metadata import Imprint

Drawing = Callable[[Axes, LeakageAudit], None]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def render(audit: LeakageAudit) -> str:
    """The page as text."""
    found = statements.verdict(audit)
    attacks = max(len(audit.attacks), 1)
    parts = [
        f"<header><h1>{statements.TITLE}</h1><p class='question'>{escape(audit.question)}</p></header>",
        f"<section class='verdict {found.tone}' aria-label='Result'><h2>{escape(found.head)}</h2>",
        *(f"<p>{_code(line)}</p>" for line in found.lines),
        "</section>",
        _figure(draw_forest, audit, 8.6, 1.1 + 0.33 * attacks, "Members found by each attack"),
        _section("Data", _facts(statements.facts(audit))),
        _section(
            "What was run",
            _table(statements.COLUMNS, statements.attack_rows(audit), first=True)
            + f"<p class='soft'>{escape(statements.READING)}</p>"
            + _facts(statements.attack_notes(audit)),
        ),
        _figure(draw_roc, audit, 6.2, 4.2, "ROC curves of the attacks, both axes logarithmic"),
        _references(audit),
        _lines("Ledger", statements.ledger_lines(audit)),
        _lines("Canaries", statements.canary_lines(audit)),
    ]
    if audit.worst:
        columns, rows = statements.worst_table(audit)
        caption = f"<p class='soft'>{_code(statements.worst_caption(audit))}</p>"
        parts.append(_section("Most exposed records", caption + _table(columns, rows)))
    parts += [
        _lines("What this does not show", audit.shows_not),
        _lines("Limits", [each.message for each in audit.limits]),
        _lines("Warnings", audit.warnings),
        _section("Provenance", _facts(statements.provenance_rows(audit))),
        "<section class='signed' aria-label='Signature'>"
        + "".join(f"<div>{each}</div>" for each in statements.SIGNED)
        + "</section>",
        f"<footer>{escape(statements.made(audit))}</footer>",
    ]
    content = "\n".join(filter(None, parts))
    style = (files("harness.report.audit_page") / "audit_page.css").read_text(encoding="utf-8")
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<link rel='icon' href='data:,'><title>{statements.TITLE}: {escape(audit.target)}</title>"
        f"<style>{style}</style></head><body><main>\n{content}\n</main></body></html>\n"
    )


def _figure(draw: Drawing, audit: LeakageAudit, width: float, height: float, about: str) -> str:
    """A figure as an image in the page."""
    with house_style():
        figure = new_figure(width, height)
        draw(figure.subplots(), audit)
        lay_out_once(figure)
        image = io.BytesIO()
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(image, metadata=Imprint(about, audit.target).metadata("svg"))
    data = base64.b64encode(image.getvalue()).decode("ascii")
    return f"<figure><img alt='{escape(about)}' src='data:image/svg+xml;base64,{data}'></figure>"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _lines(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return _section(title, "<ul>" + "".join(f"<li>{_code(line)}</li>" for line in lines) + "</ul>")


def _references(audit: LeakageAudit) -> str:
    rows = statements.reference_rows(audit)
    columns = ("", "TPR at 1 % FPR", "AUC")
    return _section("Beside other models", _table(columns, rows, first=True)) if rows else ""


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{_code(text)}</dd>" for name, text in rows) + "</dl>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], first: bool = False) -> str:
    """A table; with `first` its first row is the one to read."""
    head = "".join(f"<th scope='col'>{escape(each)}</th>" for each in columns)
    body = ""
    for place, (name, *values) in enumerate(rows):
        cells = "".join(f"<td>{escape(each)}</td>" for each in values)
        marked = " class=first" if first and not place else ""
        body += f"<tr{marked}><th scope='row'>{escape(name)}</th>{cells}</tr>"
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _code(text: str) -> str:
    """Text with `names` in the type of code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))
