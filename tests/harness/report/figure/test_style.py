import re
from pathlib import Path

import pytest

from harness.report.figure.style import (
    KINDS,
    UNKNOWN_KIND,
    darken,
    empty_figure,
    format_asked,
    format_epsilon,
    house_style,
    save,
    shorten,
)
from harness.report.metadata import Imprint


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """One figure written twice, as png, svg and pdf."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    found = []
    for name in ("one", "two"):
        with house_style():
            figure = empty_figure("A title", "Greek: ε, δ")
            files = save(figure, tmp_path / name, "x", Imprint("A title", "select 'ε'"))
        assert [file.name for file in files] == ["x.png", "x.svg", "x.pdf"]
        found.append([file.read_bytes() for file in files])
    return found


def test_every_format_carries_title_query_date_and_version(saved: list[list[bytes]]) -> None:
    png, svg, pdf = saved[0]
    for content in (png, svg, pdf):
        assert b"A title" in content and b"privbench" in content
    assert "select 'ε'".encode() in png and "select 'ε'" in svg.decode().replace("&apos;", "'")
    assert "select 'ε'".encode("utf-16-be") in re.sub(rb"\\([()\\])", rb"\1", pdf)
    assert b"2023-11-14T22:13:20Z" in png and b"2023-11-14T22:13:20Z" in svg
    assert b"D:20231114221320" in pdf


@pytest.mark.slow
def test_the_same_figure_at_the_same_date_is_the_same_bytes(saved: list[list[bytes]]) -> None:
    assert saved[0] == saved[1]


@pytest.mark.slow
def test_fonts_are_inside_the_pdf(saved: list[list[bytes]]) -> None:
    pdf = saved[0][2]
    assert pdf.count(b"/FontFile2") == pdf.count(b"/Subtype /Type0") > 0, "every font, as TrueType"
    assert b"/Type3" not in pdf


def test_every_kind_of_guarantee_has_its_own_marker() -> None:
    signs = [*KINDS.values(), UNKNOWN_KIND]
    for column in zip(*signs, strict=True):
        assert len(set(column)) == len(signs)


def test_darken_keeps_the_hue() -> None:
    assert darken("#80FF00", 0.5) == "#408000"


def test_short_texts_for_figures() -> None:
    assert format_epsilon(0.9994) == "ε=1"
    assert format_epsilon(3.992) == "ε=4"
    assert format_epsilon(0.0123) == "ε=0.012"
    assert format_epsilon(float("inf")) == format_asked(float("inf")) == "ε=∞"
    assert format_asked(8.0) == "ε=8"
    assert format_asked(0.125) == "ε=0.125"
    assert shorten("a\nb\x00") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert shorten("x" * 40, 10) == "x" * 9 + "…"
    assert shorten("exactly 10", 10) == "exactly 10"
