"""Workloads on published data: their sizes, their behaviour without the data, their splits."""

from pathlib import Path

import numpy as np
import pytest
import torch

import workloads
from harness.cli.members import listing
from workloads.errors import BenchError
from workloads.images import split_people
from workloads.models.scatter import Side, scatter_cnn, scatter_linear
from workloads.published import OnPublishedData, published
from workloads.tabular import split_bits
from workloads.text import unseen

PARAMETERS = {
    "cifar10-cnn": 550_570,
    "cifar10-cnn-relu": 550_570,
    "cifar10-effnet-head": 12_810,
    "cifar10-lenet": 15_826,
    "cifar10-mlp": 3_157_002,
    "cifar10-scatter-cnn": 187_210,
    "cifar10-scatter-linear": 155_530,
    "cifar10-vit-head": 7_680,
    "cifar10-wrn16-4": 2_748_890,
    "cifar100-lenet": 85_036,
    "cifar100-mlp": 3_249_252,
    "cifar100-vit-head": 76_800,
    "cifar100-wrn28-2": 1_479_220,
    "fmnist-cnn": 26_010,
    "fmnist-cnn-relu": 26_010,
    "fmnist-cnn-wide": 68_042,
    "fmnist-lenet": 13_426,
    "fmnist-mlp": 814_090,
    "fmnist-scatter-cnn": 33_066,
    "fmnist-scatter-linear": 39_700,
    "imdb-lstm": 2_021_202,
    "imdb-minilm-head": 770,
    "imdb-tfidf-linear": 4_002,
    "lfw-lenet": 89_650,
    "lfw-mlp": 3_255_402,
    "location30-linear": 13_410,
    "location30-mlp": 61_086,
    "mnist-cnn": 26_010,
    "mnist-cnn-kfc": 206_922,
    "mnist-cnn-keras": 26_010,
    "mnist-cnn-opacus": 26_010,
    "mnist-cnn-relu": 26_010,
    "mnist-cnn-wide": 68_042,
    "mnist-scatter-cnn": 33_066,
    "mnist-scatter-linear": 39_700,
    "purchase100-linear": 60_100,
}
"""The sources' counts where they state one."""

every_one = pytest.mark.parametrize("name", PARAMETERS)


def member(name: str) -> OnPublishedData:
    workload = workloads.family.get(name)
    assert isinstance(workload, OnPublishedData)
    return workload


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path))
    return tmp_path


def test_the_table_above_is_complete() -> None:
    found = [name for name, each in workloads.family.members.items() if isinstance(each, OnPublishedData)]
    assert sorted(found) == sorted(PARAMETERS)


@every_one
def test_the_model_has_the_published_size(name: str) -> None:
    assert sum(weight.numel() for weight in member(name).model(0).parameters()) == PARAMETERS[name]


@every_one
def test_without_data_it_is_listed_and_its_records_state_what_is_missing(name: str, nowhere: Path) -> None:
    workload = member(name)
    rows = {row["name"]: row for row in listing("workloads")}
    assert rows[name]["members"] == workload.n_train > 0
    assert "licence" in workload.source
    for ask in (workload.pool, workload.test):
        with pytest.raises(BenchError) as caught:
            ask()
        assert str(caught.value) == workload.missing()
        assert f"data fetch {workload.dataset}" in str(caught.value)
        assert str(nowhere) in str(caught.value)


def test_only_what_publishers_ship_is_published() -> None:
    with pytest.raises(TypeError, match="digits comes with a package"):
        published("digits")


def test_faces_are_divided_as_in_the_paper() -> None:
    people, each = 106, 14
    y = np.repeat(np.arange(people), each)
    x = np.arange(people * each)
    made = split_people({"x": x, "y": y})
    assert (len(made["train_y"]), len(made["test_y"])) == (1113, 371)
    assert sorted([*made["train_x"], *made["test_x"]]) == x.tolist()
    assert made["test_x"][:7].tolist() == [11, 12, 13, 24, 25, 26, 27]
    assert set(np.bincount(made["test_y"])) == {3, 4}
    assert (y[made["test_x"]] == made["test_y"]).all()


def test_bits_are_divided_the_same_way_every_time() -> None:
    x, y = torch.arange(40, dtype=torch.uint8).view(20, 2), torch.arange(20)
    pool, test = split_bits(x, y, 12, 5)
    again, _ = split_bits(x, y, 12, 5)
    assert torch.equal(pool.x, again.x)
    assert (len(pool), len(test)) == (12, 5)
    assert not set(pool.y.tolist()) & set(test.y.tolist())
    assert pool.y.tolist() != sorted(pool.y.tolist())
    assert pool.x.dtype == torch.float32
    assert torch.equal(pool.x[:, 0].long(), 2 * pool.y), "rows keep their labels"


def test_reviews_of_the_pool_are_left_out_of_the_test() -> None:
    pool, test = np.array([[1, 2], [3, 4]]), np.array([[3, 4], [4, 3], [1, 1], [1, 2]])
    assert unseen(pool, test).tolist() == [False, True, True, False]


def test_heads_take_features_in_half_precision() -> None:
    shapes: dict[Side, tuple[int, ...]] = {28: (81, 7, 7), 32: (243, 8, 8)}
    for side, shape in shapes.items():
        features = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).half()
        for build in (scatter_linear, scatter_cnn):
            head = build(0, side)
            assert torch.equal(head(features), head(features.float()))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "pool", "test", "shape"),
    [
        ("location30-mlp", 4_510, 500, (446,)),
        ("mnist-cnn", 60_000, 10_000, (1, 28, 28)),
        ("cifar10-wrn16-4", 50_000, 10_000, (3, 32, 32)),
        ("imdb-lstm", 25_000, 24_873, (80,)),
        ("imdb-tfidf-linear", 25_000, 24_873, (2_000,)),
    ],
)
def test_real_records(name: str, pool: int, test: int, shape: tuple[int, ...]) -> None:
    workload = member(name)
    if reason := workload.missing():
        pytest.skip(reason.partition(";")[0])
    assert (len(workload.pool()), len(workload.test())) == (pool, test)
    assert workload.pool().x.shape[1:] == workload.test().x.shape[1:] == shape


@pytest.mark.data
def test_digits_of_two_sources_differ_by_their_normalisation_only() -> None:
    plain, scaled = member("mnist-cnn-keras"), member("mnist-cnn-opacus")
    if reason := plain.missing():
        pytest.skip(reason.partition(";")[0])
    torch.testing.assert_close(scaled.pool().x, (plain.pool().x - 0.1307) / 0.3081)
    assert scaled.pool().x.mean().abs() < 1e-3
    assert scaled.pool().x.std() == pytest.approx(1, abs=1e-3)
