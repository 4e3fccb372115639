"""The PDF of a leakage audit: two sheets of A4, for people who sign."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_pdf import FigureCanvasPdf, PdfPages
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from harness.audit.leakage_audit import LeakageAudit
from harness.report.audit_page import statements
from harness.report.audit_page.plots import draw_forest, draw_roc
from harness.report.figure.style import ALARM, FAINT, INK, house_style
from harness.report.metadata import Imprint

WIDTH, HEIGHT = 8.27, 11.69
"""A4 in inches."""
MARGIN = 0.75
LETTER = 0.53
"""The width of a letter of DejaVu Sans, in ems, on average."""
LEADING = 1.42
SOFT = "#555b63"
FOOT = 0.65
"""Where the foot of a sheet begins."""
LOWEST = 1.05
"""Where the lines to sign on begin."""
FITTED = ((10, 12), (6, 8), (6, 4), (6, 2), (3, 2), (3, 1), (0, 2), (0, 0))
"""Records and remarks of the second sheet: the first pair that leaves room to sign is taken."""


Box = tuple[float, float, float, float]


@dataclass
class Cursor:
    """A sheet that is filled from the top."""

    figure: Figure
    y: float = HEIGHT - MARGIN
    """Inches above the lower edge."""

    def text(
        self,
        text: str,
        size: float = 8.5,
        colour: str = INK,
        weight: str = "normal",
        left: float = MARGIN,
        width: float = WIDTH - 2 * MARGIN,
        gap: float = 0.0,
    ) -> None:
        """A paragraph."""
        for line in lines_of(text, width, size, weight):
            self.y -= size * LEADING / 72
            self.figure.text(left / WIDTH, self.y / HEIGHT, line, size=size, color=colour, weight=weight)
        self.y -= gap

    def heading(self, text: str) -> None:
        """The title of a part."""
        self.y -= 0.13
        self.text(text, 10.5, weight="bold", gap=0.05)

    def facts(self, rows: Sequence[tuple[str, str]], size: float = 8, column: float = 1.2) -> None:
        """Names at the left, texts at the right."""
        for name, text in rows:
            start = self.y
            self.text(name, size, SOFT, width=column - 0.1)
            below, self.y = self.y, start
            self.text(text, size, left=MARGIN + column, width=WIDTH - 2 * MARGIN - column)
            self.y = min(self.y, below) - 0.02

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        widths: Sequence[float],
        size: float = 7.5,
        first: bool = False,
    ) -> None:
        """A table whose columns end at the sums of `widths`; with `first` the first row is in bold."""
        self.y -= 0.05
        step = size * 1.6 / 72
        pairs = zip(columns, widths, strict=True)
        heads = [lines_of(each, width - 0.1, size, "normal") for each, width in pairs]
        deepest = max(map(len, heads))
        for place in range(deepest):
            self.y -= size * 1.25 / 72
            shown = [([""] * (deepest - len(each)) + each)[place] for each in heads]
            self._row(shown, widths, size, SOFT, "normal")
        self._rule(0.05)
        for number, row in enumerate(rows):
            self.y -= step
            self._row(row, widths, size, INK, "bold" if first and not number else "normal")
        self.y -= 0.08

    def _row(
        self, row: Sequence[str], widths: Sequence[float], size: float, colour: str, weight: str
    ) -> None:
        right = MARGIN
        for place, (each, width) in enumerate(zip(row, widths, strict=True)):
            right += width
            at = (MARGIN if place == 0 else right) / WIDTH
            side = "left" if place == 0 else "right"
            self.figure.text(at, self.y / HEIGHT, each, size=size, color=colour, weight=weight, ha=side)

    def _rule(self, gap: float) -> None:
        self.y -= gap
        span = (WIDTH - 2 * MARGIN) / WIDTH
        line = Rectangle((MARGIN / WIDTH, self.y / HEIGHT), span, 0.0005, color=INK, lw=0)
        self.figure.add_artist(line)

    def axes_below(self, height: float, left: float = 0.85, right: float = 0.0) -> Box:
        """The place of a figure of this height, with room for its labels."""
        self.y -= height
        box = (MARGIN + left, self.y + 0.42, WIDTH - 2 * MARGIN - left - right, height - 0.47)
        return (box[0] / WIDTH, box[1] / HEIGHT, box[2] / WIDTH, box[3] / HEIGHT)

    def box(self, head: str, paragraphs: Sequence[str], tone: statements.Tone) -> None:
        """The result, framed."""
        colour = ALARM if tone == "alarm" else INK
        top, pad = self.y, 0.14
        self.y -= pad - 0.03
        left, width = MARGIN + 0.2, WIDTH - 2 * MARGIN - 0.36
        self.text(head, 11, colour, "bold", left=left, width=width, gap=0.04)
        for place, each in enumerate(paragraphs):
            size, weight = (9.0, "normal") if place else (9.5, "bold")
            self.text(each.replace("`", ""), size, weight=weight, left=left, width=width)
            self.y -= 0.03
        self.y -= pad - 0.03
        place_, span = (MARGIN / WIDTH, self.y / HEIGHT), (WIDTH - 2 * MARGIN) / WIDTH
        depth = (top - self.y) / HEIGHT
        fill = "#fdecee" if tone == "alarm" else "#f3f5f7"
        self.figure.add_artist(Rectangle(place_, span, depth, color=fill, lw=0, zorder=-2))
        self.figure.add_artist(Rectangle(place_, 0.007, depth, color=colour, lw=0, zorder=-1))


def lines_of(text: str, width: float, size: float, weight: str) -> list[str]:
    """Text in lines of this many inches."""
    letter = LETTER * size / 72 * (1.08 if weight == "bold" else 1.0)
    bound = text.replace(" %", "\N{NO-BREAK SPACE}%")
    broken = textwrap.wrap(bound, max(int(width / letter), 8), break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in broken] or [""]


def write_sheets(audit: LeakageAudit, path: Path) -> None:
    """Write the two sheets."""
    about = Imprint(f"{statements.TITLE}: {audit.target}", audit.question, audit.meaning)
    with house_style(), PdfPages(path, metadata=about.metadata("pdf")) as pages:
        sheet, notes_fit = _first(_blank(), audit, notes=True), True
        if sheet.y < FOOT:
            sheet, notes_fit = _first(_blank(), audit, notes=False), False
        _foot(sheet, audit, 1)
        pages.savefig(sheet.figure)
        for records, remarks in FITTED:
            sheet = _second(_blank(), audit, records, remarks, notes=not notes_fit)
            if sheet.y >= LOWEST:
                break
        _sign(sheet)
        _foot(sheet, audit, 2)
        pages.savefig(sheet.figure)


def _blank() -> Cursor:
    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    FigureCanvasPdf(figure)
    return Cursor(figure)


def _first(sheet: Cursor, audit: LeakageAudit, notes: bool) -> Cursor:
    """The question, the answer, the data and every attack beside guessing."""
    sheet.text(statements.TITLE, 17, weight="bold")
    sheet.text(audit.question, 10.5, SOFT, gap=0.12)
    found = statements.verdict(audit)
    sheet.box(found.head, found.lines, found.tone)
    sheet.heading("Data")
    sheet.facts(statements.facts(audit))
    sheet.heading("Leakage by attack")
    height = 1.05 + 0.22 * len(audit.attacks)
    draw_forest(sheet.figure.add_axes(sheet.axes_below(height, 0.85, 1.3)), audit)
    rows = statements.attack_rows(audit)
    sheet.table(statements.COLUMNS, rows, (0.85, 1.2, 1.1, 1.1, 1.4, 1.12), 6.8, first=True)
    sheet.text(statements.READING, 7, SOFT)
    if notes:
        _notes(sheet, audit)
    return sheet


def _second(sheet: Cursor, audit: LeakageAudit, records: int, remarks: int, notes: bool) -> Cursor:
    """Curves, references, the ledger, records, what is not shown, and provenance."""
    top = sheet.y
    place = (MARGIN + 0.55) / WIDTH, (top - 2.35) / HEIGHT, 2.75 / WIDTH, 2.2 / HEIGHT
    draw_roc(sheet.figure.add_axes(place), audit)
    beside = Cursor(sheet.figure, top)
    left, width = MARGIN + 3.75, WIDTH - 2 * MARGIN - 3.75
    references = statements.reference_rows(audit)
    if references:
        beside.text("Beside other models", 10.5, weight="bold", left=left, gap=0.05)
    for name, tpr, auc in references:
        weight = "bold" if name.startswith("here") else "normal"
        beside.text(name, 7.5, weight=weight, left=left, width=width)
        beside.text(f"TPR at 1 % FPR {tpr}, AUC {auc}", 7.5, SOFT, left=left, width=width, gap=0.03)
    sheet.y = min(top - 2.75, beside.y)
    for title, lines in (
        ("Ledger", statements.ledger_lines(audit)),
        ("Canaries", statements.canary_lines(audit)),
    ):
        if lines:
            sheet.heading(title)
            for line in lines:
                sheet.text(line, 8)
    if notes:
        _notes(sheet, audit)
    columns, rows = statements.worst_table(audit)
    if rows[:records]:
        sheet.heading("Most exposed records")
        sheet.text(statements.worst_caption(audit).replace("`", ""), 7.5, SOFT)
        sheet.table(columns, rows[:records], [1.2] * len(columns), 7.5)
    sheet.heading("What this does not show")
    for line in audit.shows_not:
        sheet.text(f"• {line.replace('`', '')}", 7.5)
    said = [*(each.message for each in audit.limits), *audit.warnings]
    if said:
        sheet.heading("Remarks")
        for line in said[:remarks]:
            sheet.text(f"• {line.replace('`', '')}", 7.5)
        if said[remarks:]:
            sheet.text(f"• {len(said[remarks:])} more are in audit.html", 7.5)
    sheet.heading("Provenance")
    text = "; ".join(f"{name}: {value}" for name, value in statements.provenance_rows(audit))
    sheet.text(text, 6.5, SOFT)
    return sheet


def _notes(sheet: Cursor, audit: LeakageAudit) -> None:
    """What every attack knows, and which could not be run."""
    sheet.heading("What was run")
    sheet.facts(_plain(statements.attack_notes(audit)), 7.5, 1.5)


def _plain(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, text.replace("`", "")) for name, text in rows]


def _sign(sheet: Cursor) -> None:
    """Lines to sign on, at the foot."""
    y, left = 0.95, MARGIN
    for name, width in zip(statements.SIGNED, (2.6, 1.3, 2.6), strict=True):
        rule = Rectangle((left / WIDTH, y / HEIGHT), width / WIDTH, 0.0005, color=INK, lw=0)
        sheet.figure.add_artist(rule)
        sheet.figure.text(left / WIDTH, (y - 0.14) / HEIGHT, name, size=7, color=SOFT)
        left += width + 0.13


def _foot(sheet: Cursor, audit: LeakageAudit, number: int) -> None:
    sheet.figure.text(MARGIN / WIDTH, 0.45 / HEIGHT, statements.made(audit), size=7, color=FAINT)
    at = (WIDTH - MARGIN) / WIDTH
    sheet.figure.text(at, 0.45 / HEIGHT, f"{number} of 2", size=7, color=FAINT, ha="right")
