"""Reports and the database know methods by what they declare: no method's name occurs in their sources."""

import re
from pathlib import Path

import pytest

import methods

ROOT = Path(__file__).parents[3]
NAMES = "|".join(re.escape(name).replace(r"\-", "[-_]") for name in methods.family.own)
WORD = re.compile(rf"(?<![\w-])({NAMES})(?![\w-])", re.IGNORECASE)
SOURCES = sorted(
    path
    for folder in ("harness/report", "db")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".js", ".html", ".css") and "vendor" not in path.parts
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_method_is_named(path: Path) -> None:
    named = [line for line in path.read_text(encoding="utf-8").splitlines() if WORD.search(line)]
    assert not named


def test_a_name_would_be_found() -> None:
    for text in ("'dp-sgd'", "dp_sgd = 1", "plain SGD", "# PATE's votes", '"sgd"'):
        assert WORD.search(text), text
    for text in ("update", "noisy-sgd", "sgd2"):
        assert not WORD.search(text), text
