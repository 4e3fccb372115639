"""docs/rules.md: code cites rules by name, and the tests it names are in the mutation campaign."""

import re
from pathlib import Path

import pytest

from tests.campaigns.mutations.mutations import MUTATIONS

PACKAGES = ("harness", "methods", "workloads", "db", "privbench")
CITED = re.compile(r"docs/rules\.md: ([a-z][a-z ,-]*[a-z])")

Rules = dict[str, str]
"""Name to section."""


@pytest.fixture(scope="module")
def rules(root: Path) -> Rules:
    text = (root / "docs/rules.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^### ", text, flags=re.MULTILINE)
    return {name.lower(): section for name, section in (each.split("\n", 1) for each in sections)}


def sources(root: Path) -> dict[str, str]:
    """Every file of code, in one line."""
    files = [
        each for name in PACKAGES for kind in ("py", "sql", "js") for each in (root / name).rglob(f"*.{kind}")
    ]
    return {str(file.relative_to(root)): re.sub(r"\s+(-- |// |# )?", " ", file.read_text()) for file in files}


def test_there_are_26_rules_and_each_states_what_the_program_does(rules: Rules) -> None:
    assert len(rules) == 26
    assert [name for name, section in rules.items() if "- Program: " not in section] == []


def test_code_cites_rules_that_there_are(rules: Rules, root: Path) -> None:
    cited = {
        (file, name)
        for file, text in sources(root).items()
        for names in CITED.findall(text)
        for name in names.split(", ")
    }
    assert len(cited) >= 8
    assert [(file, name) for file, name in sorted(cited) if name not in rules] == []
    assert [file for file, text in sources(root).items() if re.search(r"\bRULES \d", text)] == []


def test_the_page_names_the_tests_of_the_campaign(rules: Rules) -> None:
    caught: dict[str, set[str]] = {}
    for mutation in MUTATIONS:
        caught.setdefault(mutation.rule, set()).add(mutation.test.rpartition("::")[2])
    named = {name: set(re.findall(r"`(test_\w+)`", section)) for name, section in rules.items()}
    assert {name: tests for name, tests in named.items() if tests} == caught
