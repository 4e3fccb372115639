"""Private figures stay in the store, however the result was used before."""

import pytest

from harness.accounting.pricing import NOT_SANITISED
from harness.spec import Task
from harness.store.files import dump
from harness.store.private import PRIVATE_EPSILONS, publishable
from harness.store.result import Result
from tests.harness.simulated import cells, ended, training

TASK = Task("train", cells("digits-mlp")[1])


def voted() -> Result:
    figures = training(TASK, 0.9)
    figures["guarantee"]["epsilons"]["data_dependent"] = 0.618033988
    figures["guarantee"]["assumptions"].append(NOT_SANITISED)
    return ended(TASK, **figures)


@pytest.mark.parametrize("read_before", [False, True])
def test_neither_figures_nor_outcome_contain_private_figures(read_before: bool) -> None:
    result = voted()
    if read_before:
        assert "data_dependent" in result.training.guarantee.epsilons
    published = publishable(result)
    assert not {*PRIVATE_EPSILONS} & published.training.guarantee.epsilons.keys()
    assert published.training.guarantee.assumptions == ["poisson sampling"]
    assert b"0.618" not in dump(published.document()) and b"sanitised" not in dump(published.document())
    assert published.training.guarantee.epsilons == {"pld": 1.0, "rdp": 1.25, "paper": 0.75}
    assert "data_dependent" in result.training.guarantee.epsilons, "the store's own is as it was"


def test_a_result_without_private_figures_is_unchanged() -> None:
    plain = ended(TASK, **training(TASK, 0.9))
    assert publishable(plain) is plain
    failed = ended(TASK, "failed")
    assert publishable(failed) is failed
