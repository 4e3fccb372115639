"""The short form of `python -m tests.second_device`: the list is whole, and two of it are caught."""

import ast

import pytest

from tests.campaigns.mutations.__main__ import ROOT, campaign
from tests.campaigns.mutations.mutations import Mutation
from tests.second_device.fixtures import on_second
from tests.second_device.mutations import MUTATIONS

every_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.change)
ONE_THAT_MIXES = "sgd's model stays on the host"
ONE_THAT_WAITS = "row numbers are copied from pageable memory"


@every_mutation
def test_its_text_occurs_once(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.text) == 1
    assert mutation.replacement != mutation.text


@every_mutation
def test_its_test_is_there(mutation: Mutation) -> None:
    file, _, name = mutation.test.partition("::")
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name.partition("[")[0] in {each.name for each in module.body if isinstance(each, ast.FunctionDef)}


@pytest.mark.slow
@pytest.mark.usefixtures("device")
@on_second
def test_two_are_caught(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [each for each in MUTATIONS if each.change in (ONE_THAT_MIXES, ONE_THAT_WAITS)]
    assert campaign(chosen) == 0
    assert "mutations: 2 of 2 caught" in capsys.readouterr().out
