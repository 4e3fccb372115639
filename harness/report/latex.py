"""Tables in LaTeX: floats with a tabular that fits a column of one- and two-column documents.

They need the packages array, booktabs and graphicx. A table is set in natural width if that fits the
narrowest column of common styles, else its cells are wrapped, else (many columns) it is scaled to the column.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NARROWEST = 219.0
"""The column of ACL's style in points; those of others are wider."""
LINES = 44
"""Lines of text in one float, at most: a longer table continues in another."""
FLOATS = 8
"""Floats in a row before LaTeX is told to place them: it holds only a few."""
ROOMY, TIGHT = 3.0, 2.5
"""Points left and right of a column: at natural width, and where cells are wrapped."""
WORD, PIECE = 9, 7
"""Letters of a word, at most, without a place to break it; and between two of these."""
BREAK, SOFT, APART = "\N{ZERO WIDTH SPACE}", "\N{SOFT HYPHEN}", "\N{ZERO WIDTH NON-JOINER}"
"""A place to break a line, one to hyphenate, and one between signs that TeX would join."""
GLUE = "\N{WORD JOINER}"
"""A space that no line breaks at. Python's own no-break space would be split at."""
MEASURED = re.compile(r"(?<=[\d.]) (?=[±%†])|(?<=±) (?=\d)|(?<=%) (?=†)")
"""The spaces inside a number with its interval and unit."""
LIGATURE = re.compile(r"(?<=-)(?=-)|(?<=')(?=')|(?<=,)(?=,)")

LETTERS = "alpha beta gamma delta zeta eta theta kappa mu nu xi pi rho sigma tau phi chi psi omega"
GREEK = {unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}"): f"$\\{name}$" for name in LETTERS.split()}
SIGNS: Mapping[str, str] = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **GREEK,
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # a bracket at the start of a line would be an argument of the previous row
    "]": "{]}",
    "*": "{*}",  # so would a star
    "ε": r"$\varepsilon$",
    "Δ": r"$\Delta$",
    "Σ": r"$\Sigma$",
    "µ": r"$\mu$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "·": r"$\cdot$",
    "\N{MINUS SIGN}": "$-$",
    "∞": r"$\infty$",
    "√": r"$\surd$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "²": "$^2$",
    "³": "$^3$",
    "°": r"$^\circ$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "…": r"\ldots{}",
    "\N{EN DASH}": "--",
    "—": "---",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "“": "``",
    "”": "''",
    "\N{NO-BREAK SPACE}": "~",
    GLUE: "~",
    BREAK: r"\allowbreak{}",
    SOFT: r"\-",
    APART: "{}",
}


def escape(text: str) -> str:
    """One line in which no character is a command; pdflatex knows every sign of it."""
    return "".join(_escaped(sign) for sign in LIGATURE.sub(APART, " ".join(text.split())))


def _escaped(sign: str) -> str:
    if sign in SIGNS:
        return SIGNS[sign]
    if sign.isascii():
        return sign if sign.isprintable() else "?"
    plain = unicodedata.normalize("NFKD", sign)
    if plain[0].isascii() and plain[0].isalnum() and all(map(unicodedata.combining, plain[1:])):
        # Accents that every font of TeX has; other letters of Latin lose theirs.
        return sign if sign in "äöüÄÖÜàâéèêëîïôùûçñáíóúÀÉÈÇÑÁÍÓÚåÅ" else plain[0]
    return rf"\texttt{{U+{ord(sign):04X}}}"


@dataclass(frozen=True)
class Layout:
    """How a table is set: its columns, what precedes and follows the tabular, its cells and their lines."""

    spec: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[int]
    end: str = r" \\"
    legible: bool = True
    """False if it is scaled."""


def set_table(caption: str, layout: Layout, label: str) -> list[str]:
    """The lines of one or more floats with this caption; the label is of the first."""
    floats: list[str] = []
    for number, part in enumerate(_split(layout)):
        if number and number % FLOATS == 0:
            floats.append("\\clearpage")
        floats += [
            "\\begin{table}[!htbp]",
            "\\centering",
            f"\\caption{{{escape(caption)}{' (continued)' * (number > 0)}}}",
            *([] if number else [f"\\label{{{label}}}"]),
            *layout.before,
            f"\\begin{{tabular}}{{@{{}}{layout.spec}@{{}}}}",
            "\\toprule",
            _line(layout.columns),
            "\\midrule",
            *(_line(row, layout.end) for row in part),
            "\\bottomrule",
            "\\end{tabular}",
            *layout.after,
            "\\end{table}",
        ]
    return floats


def choose_layout(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Layout:
    """Natural width, wrapped cells or a scaled table: the first that fits the narrowest column."""
    plain, ones = "l" * len(columns), [1] * len(rows)
    if _points([columns, *rows]) <= NARROWEST:
        return Layout(plain, ("\\footnotesize", _gap(ROOMY)), (), columns, rows, ones)
    head, *body = ([breakable(cell) for cell in row] for row in (columns, *rows))
    before = ("\\scriptsize", _gap(TIGHT))
    shares = find_shares([head, *body])
    if shares is None:
        scale = "\\resizebox{\\linewidth}{!}{%"
        return Layout(plain, (*before, scale), ("}",), columns, rows, ones, legible=False)
    gaps = 2 * (len(columns) - 1)
    spec = "".join(_wrapped(share, gaps) for share in shares)
    return Layout(
        spec, before, (), head, body, [_lines(row, shares) for row in body], end=r" \\ \addlinespace[1.5pt]"
    )


def breakable(text: str) -> str:
    """A text with places to break it: after signs between words and within long words, never in a number."""
    signs = re.sub(r"(?<=[-_/=:;,.+])(?=[^\s\d])", BREAK, MEASURED.sub(GLUE, text))
    return re.sub(rf"\w{{{WORD + 1},}}", lambda word: SOFT.join(_pieces(word[0])), signs)


def find_shares(rows: Sequence[Sequence[str]]) -> list[float] | None:
    """The share of the column's width for each column of wrapped cells; None if their words do not fit.

    Cells are wrapped between words; if that is not enough, also at the places within them.
    """
    columns = list(zip(*rows, strict=True))
    room = NARROWEST - 2 * TIGHT * (len(columns) - 1)
    wanted = [max(width(cell) for cell in column) * 7 + 1 for column in columns]
    for parts in (str.split, _pieces_of):
        least = [
            max(width(part) for cell in column for part in parts(cell) or [""]) * 7 + 1 for column in columns
        ]
        if sum(least) <= room:
            spare = sum(wanted) - sum(least)
            share = min(1.0, (room - sum(least)) / spare) if spare else 0.0
            points = [need + share * (wish - need) for wish, need in zip(wanted, least, strict=True)]
            return [each / room for each in points]
    return None


def width(text: str) -> float:
    """Approximate width in units of the size of Computer Modern at 7 points, never too small."""
    return sum(_em(sign) for sign in text)


def _em(sign: str) -> float:
    if sign in (BREAK, SOFT):
        return 0.0
    if sign in f"ijl.,:;'|!()[] -{GLUE}":
        return 0.4
    if sign in "mwMW%—…" or not sign.isascii():
        return 0.95
    return 0.8 if sign.isupper() else 0.6


def _pieces_of(text: str) -> list[str]:
    """The parts of a text between places to break it; a hyphenated one with its hyphen."""
    found = re.findall(rf"([^\s{BREAK}{SOFT}]+)({SOFT}?)", text)
    return [f"{part}-" if cut else part for part, cut in found]


def _pieces(word: str) -> list[str]:
    return [word[place : place + PIECE] for place in range(0, len(word), PIECE)]


def _wrapped(share: float, gaps: int) -> str:
    part = int(share * 1000) / 1000
    return rf">{{\raggedright\arraybackslash}}p{{{part:.3f}\dimexpr\linewidth-{gaps}\tabcolsep\relax}}"


def _points(rows: Sequence[Sequence[str]]) -> float:
    """The natural width at 8 points."""
    columns = list(zip(*rows, strict=True))
    wide = sum(max(width(cell) for cell in column) * 8 for column in columns)
    return wide + 2 * ROOMY * (len(columns) - 1)


def _lines(row: Sequence[str], shares: Sequence[float]) -> int:
    room = NARROWEST - 2 * TIGHT * (len(shares) - 1)
    cells = zip(row, shares, strict=True)
    return max(int(1.15 * width(cell) * 7 / (share * room)) + 1 for cell, share in cells)


def _split(layout: Layout) -> list[list[Sequence[str]]]:
    """The rows in parts of at most LINES lines; one part without rows."""
    parts: list[list[Sequence[str]]] = [[]]
    used = 0
    for row, lines in zip(layout.rows, layout.lines, strict=True):
        if parts[-1] and used + lines > LINES:
            parts.append([])
            used = 0
        parts[-1].append(row)
        used += lines
    return parts


def _gap(points: float) -> str:
    return f"\\setlength{{\\tabcolsep}}{{{points:g}pt}}"


def _line(cells: Sequence[str], end: str = r" \\") -> str:
    return " & ".join(escape(cell) for cell in cells) + end
