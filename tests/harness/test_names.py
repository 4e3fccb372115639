"""The harness knows methods by what they declare: none is named in its code, its comments or its views."""

import re
from pathlib import Path

import pytest

import methods

ROOT = Path(__file__).parents[2]
DATA = ("harness/papers/", "harness/sweeps/")
"""Sweeps and published tables are about methods."""
CODE = (".py", ".js", ".html", ".css", ".sql")
EXAMPLES = {
    "harness/cli/app.py": {"sgd", "dp-sgd"},
    "harness/cli/price.py": {"dp-sgd"},
    "harness/cli/sweeps.py": {"sgd", "dp-sgd"},
}
"""Help texts that show a command to type."""


def spellings(name: str) -> set[str]:
    """A name as a sentence, a command, a module or a class would write it, in lower case."""
    return {name, name.replace("-", "_"), name.replace("-", "")}


SPELLED = {word: name for name in sorted(methods.family.own) for word in spellings(name)}
WORDS = "|".join(sorted(SPELLED, key=len, reverse=True))
NAMED = re.compile(rf"(?<![a-z0-9])({WORDS})(?![a-z0-9])", re.IGNORECASE)


def named_in(text: str) -> set[str]:
    """The methods that a text names, by whole words."""
    parts = re.sub(r"([a-z])([A-Z])", r"\1-\2", text)  # DpSgd is a spelling, too
    found = NAMED.findall(text) + NAMED.findall(parts)
    return {SPELLED[each.lower()] for each in found}


def files() -> list[str]:
    found = [path for folder in ("harness", "db") for path in (ROOT / folder).rglob("*")]
    names = (str(path.relative_to(ROOT)) for path in found if path.suffix in CODE)
    return sorted(name for name in names if not name.startswith(DATA))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("relative to plain sgd.", {"sgd"}),
        ("`--method dp-sgd`", {"dp-sgd"}),
        ("from methods.pd_sgd import x", {"pd-sgd"}),
        ("class DpSgd:", {"dp-sgd"}),
        ("def draw_pd_sgd_theory", {"pd-sgd"}),
        ("papers/pd-sgd-anomalous", {"pd-sgd"}),
        ("DPSUR's authors", {"dpsur"}),
        ("PATE", {"pate"}),
        ("participate in a spate of updates", set()),
        ("optim.SGDR or asgd", set()),
    ],
)
def test_a_name_is_found_however_it_is_written(text: str, expected: set[str]) -> None:
    assert named_in(text) == expected


@pytest.mark.slow
def test_no_method_is_named() -> None:
    found = {name: named_in((ROOT / name).read_text(encoding="utf-8")) for name in files()}
    assert len(found) > 200
    strays = {name: each for name, each in found.items() if each - EXAMPLES.get(name, set())}
    assert strays == {}


def test_every_example_is_there() -> None:
    for name, allowed in EXAMPLES.items():
        assert named_in((ROOT / name).read_text(encoding="utf-8")) == allowed


def test_no_file_is_named_after_a_method() -> None:
    assert [name for name in files() if SPELLED.keys() & {*Path(name).with_suffix("").parts}] == []
