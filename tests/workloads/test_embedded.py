"""The digits: what the split is, and that models come from their seed alone."""

import hashlib

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import workloads
from workloads.base import Workload
from workloads.data.digits import load_split, read


@pytest.fixture(params=["digits-linear", "digits-mlp"])
def workload(request: pytest.FixtureRequest) -> Workload:
    return workloads.family.get(request.param)


def test_sizes(workload: Workload) -> None:
    assert (len(workload.pool()), len(workload.test()), workload.n_train) == (1437, 360, 718)
    assert workload.pool().x.shape[1:] == (64,)
    assert workload.pool().x.min() == 0
    assert workload.pool().x.max() == 1
    assert workload.classes == 10


def test_pool_and_test_are_the_source_and_share_no_record() -> None:
    pool, test = load_split()
    split = np.concatenate([pool.x.numpy(), test.x.numpy()]) * 16
    pixels = load_digits().data
    assert sorted(map(bytes, split.astype(np.uint8))) == sorted(map(bytes, pixels.astype(np.uint8)))


def test_the_file_is_read_as_scikit_learn_reads_it() -> None:
    for ours, theirs in zip(read(), load_digits(return_X_y=True), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


def test_every_class_is_shared_out_evenly() -> None:
    pool, test = load_split()
    in_pool, in_test = (torch.bincount(records.y, minlength=10) for records in (pool, test))
    assert ((in_test - (in_pool + in_test) / 5).abs() <= 1).all()


def test_the_split_never_moves() -> None:
    """Results of two days are compared: if this fails, raise the workload's version."""
    _, test = load_split()
    digest = hashlib.sha256(test.x.numpy().tobytes() + test.y.numpy().tobytes()).hexdigest()
    assert digest[:16] == "ef8782cc7d1ad3b4"


def test_data_are_loaded_once() -> None:
    assert load_split()[0].x is load_split()[0].x


def test_parameters() -> None:
    sizes = {
        name: sum(p.numel() for p in workloads.family.get(name).model(0).parameters())
        for name in ("digits-linear", "digits-mlp")
    }
    assert sizes == {"digits-linear": 64 * 10 + 10, "digits-mlp": 64 * 128 + 128 + 128 * 10 + 10}
