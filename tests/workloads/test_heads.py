"""Workloads on frozen features: small banks in the place of large ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workloads
from harness.cli.members import page
from workloads import data, features
from workloads.data.array_cache import cached, digest
from workloads.data.dataset import Dataset, Place, Published
from workloads.errors import BenchError
from workloads.features.bank import Bank
from workloads.heads import Head, records

HEADS = ["cifar10-effnet-head", "cifar10-vit-head", "cifar100-vit-head", "imdb-minilm-head"]
POOL, TEST = 8, 4


def head(name: str) -> Head:
    found = workloads.family.get(name)
    assert isinstance(found, Head)
    return found


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Data sets of twelve records instead of the published ones, which cannot be encoded in a test."""
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path))
    monkeypatch.setenv("PRIVBENCH_CACHE", str(tmp_path / "cache"))
    members: dict[str, Dataset] = dict(data.family.members)
    arrays = {"train_y": np.arange(POOL) % 2, "test_y": np.arange(TEST) % 2}
    for name in ("cifar-10", "cifar-100", "imdb"):
        place = Place(name)
        members[name] = Published(
            name, "", "free", "us", (place,), lambda _: arrays, (), sha256=digest(arrays)
        )
        (tmp_path / name).mkdir()
    monkeypatch.setattr(data.family, "members", members)
    monkeypatch.setattr("workloads.features.frozen.find_spec", lambda name: None)
    records.cache_clear()
    yield tmp_path
    records.cache_clear()


def put(bank: Bank, width: int) -> dict[str, Any]:
    """A file as another machine would have made it."""
    random = np.random.default_rng(width)
    made = {
        f"{split}_x": random.standard_normal((count, width)).astype(np.float16)
        for split, count in (("train", POOL), ("test", TEST))
    }
    cached(bank.name, bank.file().stem.removeprefix(f"{bank.name}-"), lambda: made)
    return made


@pytest.mark.parametrize("name", HEADS)
def test_it_trains_on_a_file_that_another_machine_made(
    name: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = replace(head(name), fresh=None)
    bank = features.family.get(workload.bank)
    assert bank.dataset == workload.dataset
    assert "cannot be computed: it needs" in (workload.missing() or "")
    with pytest.raises(BenchError, match=f"privbench data features {bank.name}"):
        workload.pool()
    width = next(weight.shape[1] for weight in workload.model(0).parameters() if weight.ndim == 2)
    made = put(bank, width)
    assert workload.missing() is None
    assert workload.unprepared() is None
    pool, test = workload.pool(), workload.test()
    assert torch.equal(pool.x, torch.from_numpy(made["train_x"]))
    assert torch.equal(test.x, torch.from_numpy(made["test_x"]))
    assert pool.y.tolist() == [0, 1] * (POOL // 2)
    assert workload.model(0)(pool.x).shape == (POOL, workload.classes)


def test_reviews_that_are_in_the_pool_as_well_are_left_out(small: Path) -> None:
    workload = replace(head("imdb-minilm-head"), fresh=lambda: np.array([True, False, True, True]))
    made = put(features.family.get("imdb-minilm"), 384)
    assert torch.equal(workload.test().x, torch.from_numpy(made["test_x"][[0, 2, 3]]))
    assert workload.test().y.tolist() == [0, 0, 1]
    assert len(workload.pool()) == POOL


def test_showing_a_workload_computes_no_features(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be gigabytes for scattering."""
    shown = page("workload", "cifar10-scatter-linear")
    assert shown["pool"] is None
    assert "not computed yet" in shown["data"]
    assert "privbench data features cifar10-scattering" in shown["data"]


def test_its_source_names_data_and_encoder() -> None:
    assert "Krizhevsky" in head("cifar10-effnet-head").source
    assert "Tan and Le 2019" in head("cifar10-effnet-head").source
    assert head("cifar10-scatter-linear").bank == head("cifar10-scatter-cnn").bank


@pytest.mark.data
@pytest.mark.parametrize(("name", "test"), [("cifar10-effnet-head", 10_000), ("imdb-minilm-head", 24_873)])
def test_real_features(name: str, test: int) -> None:
    workload = head(name)
    if reason := workload.missing() or workload.unprepared():
        pytest.skip(reason.partition(";")[0])
    pool = workload.pool()
    assert 2 * workload.n_train == len(pool)
    assert len(workload.test()) == test
    assert pool.x.dtype == torch.float16
    assert pool.x.std(dim=0).float().median() > 0.1, "features differ from record to record"
