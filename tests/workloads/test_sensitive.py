"""Sensitive attributes that workloads declare are columns of theirs."""

import pytest
import torch

import workloads
from workloads.base import Sensitive

DECLARED = [name for name in workloads.family.names() if isinstance(workloads.family.get(name), Sensitive)]


def test_tables_declare_one_and_images_do_not() -> None:
    tables = {"location30-mlp", "purchase100-linear", "purchase100-synthetic", "tabular-synthetic"}
    assert tables <= set(DECLARED)
    assert "digits-mlp" not in DECLARED


@pytest.mark.data
@pytest.mark.parametrize("name", DECLARED)
def test_every_value_is_common_enough_to_be_worth_guessing(name: str) -> None:
    workload = workloads.family.get(name)
    assert isinstance(workload, Sensitive)
    if reason := getattr(workload, "missing", lambda: None)():
        pytest.skip(reason.partition(";")[0])
    attribute, x = workload.sensitive, workload.test().x
    assert x.dim() == 2 and 0 <= attribute.column < x.shape[1]
    shares = torch.bincount(attribute.of(x), minlength=len(attribute.values)) / len(x)
    assert shares.min() > 0.1
    if set(attribute.values) == {0.0, 1.0}:
        assert set(x[:, attribute.column].tolist()) == {0.0, 1.0}, "a bit"
