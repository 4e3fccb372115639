"""The short form of `make mutations`: both lists are valid, and the campaign detects what is not caught."""

import ast
from dataclasses import replace

import pytest

from tests.campaigns.mutations.__main__ import ROOT, campaign
from tests.campaigns.mutations.mutations import MUTATIONS, Mutation
from tests.second_device.mutations import MUTATIONS as OF_DEVICES

SELECTION = "tests/db/test_selection.py"
QUICK = [mutation for mutation in MUTATIONS if mutation.test.startswith(SELECTION)][:2]
"""Their tests load neither torch nor data."""

every_mutation = pytest.mark.parametrize(
    "mutation", [*MUTATIONS, *OF_DEVICES], ids=lambda each: f"{each.rule}, {each.change}"
)


@every_mutation
def test_its_text_occurs_once(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.text) == 1
    assert mutation.replacement != mutation.text


@every_mutation
def test_its_test_is_there(mutation: Mutation) -> None:
    file, _, name = mutation.test.partition("::")
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name.partition("[")[0] in {each.name for each in module.body if isinstance(each, ast.FunctionDef)}


def test_no_mutation_is_listed_twice() -> None:
    changes = [(mutation.rule, mutation.change) for mutation in [*MUTATIONS, *OF_DEVICES]]
    assert len(set(changes)) == len(changes)


@pytest.mark.slow
def test_two_are_caught(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(QUICK) == 2
    assert campaign(QUICK) == 0
    assert "mutations: 2 of 2 caught" in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_not_caught_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    title = "-- The views that users query."
    harmless = replace(QUICK[0], file="db/views.sql", text=title, replacement="-- Views.")
    gone = replace(QUICK[0], file="db/views.sql", text="no such text")
    no_sql = replace(QUICK[0], file="db/views.sql", text=title, replacement="no comment;")
    assert campaign([harmless, gone, no_sql]) == 1
    *_, first, second, third, count = _without_output(capsys.readouterr().out)
    assert first.endswith("| NOT CAUGHT |")
    assert "| NOT MADE: its text occurs 0 times in db/views.sql |" in second
    assert "| BROKEN: the test could not run, exit code 1" in third
    assert count.startswith("mutations: 0 of 3 caught")


@pytest.mark.slow
def test_tests_that_fail_anyway_catch_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign([replace(QUICK[0], test=f"{SELECTION}::test_that_there_is_not")]) == 1
    assert "do not all pass without any mutation" in capsys.readouterr().out


def _without_output(printed: str) -> list[str]:
    """The campaign's own lines."""
    return [line for line in printed.splitlines() if line.startswith(("| ", "mutations: "))]
