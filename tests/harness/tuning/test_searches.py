"""What is searched: levels are products, everything else is one value or none; who judges; refusals."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import workloads
from harness.plan.sweep_file import read_sweep
from harness.plan.tune_table import TuneTable
from harness.tuning.searches import Search, find_searches, find_sizes
from harness.tuning.stages import refuse_gap
from tests.harness.own_data import OwnData
from workloads.base import Records
from workloads.errors import SpecError

DP = {"workload": "digits-linear", "method": "dp-sgd", "epsilon": 1}


def searches(*grids: dict[str, Any], **tune: Any) -> list[Search]:
    sweep, problems = read_sweep({"grid": list(grids), "tune": tune}, "test")
    assert problems == [] and sweep.tune is not None
    return find_searches(sweep, sweep.tune).found


def refusal(*grids: dict[str, Any], **tune: Any) -> SpecError:
    with pytest.raises(SpecError) as caught:
        searches(*grids, **tune)
    return caught.value


def test_levels_are_searched_one_by_one_and_sorted() -> None:
    grid = {"workload": "digits-linear"}
    found = searches(
        DP | {"epsilon": [8, 1]},
        {**grid, "method": "pd-sgd", "sigma": [0.05, 0.1]},
        {**grid, "method": "sgd"},
    )
    by_recipe = {"gamma": 75.0, "T": 3, "ablation": "full"}
    assert [(each.method, dict(each.levels)) for each in found] == [
        ("dp-sgd", {"epsilon": 1}),
        ("dp-sgd", {"epsilon": 8}),
        ("pd-sgd", {"sigma": 0.05} | by_recipe),
        ("pd-sgd", {"sigma": 0.1} | by_recipe),
        ("sgd", {}),
    ]


def test_a_given_parameter_is_not_searched() -> None:
    (found,) = searches(DP | {"clip": 1.0})
    assert found.given == {"clip": 1.0}
    assert "clip" not in {axis.field for axis in found.axes}


def test_a_given_parameter_has_one_value() -> None:
    assert "clip has several values" in str(refusal(DP | {"clip": [0.5, 1.0]}))


def test_canaries_are_not_people() -> None:
    assert searches(DP | {"canary": "gradient", "canaries": 20}) == searches(DP)


def test_a_level_must_be_given() -> None:
    caught = refusal({"workload": "digits-linear", "method": "dp-sgd", "noise_multiplier": 1.0})
    assert "epsilon is a level" in str(caught)


def test_a_level_is_never_searched() -> None:
    caught = refusal(DP, search={"dp-sgd": {"epsilon": [1, 8]}})
    assert "epsilon: a level is never searched" in str(caught)


def test_ranges_of_the_sweep_may_reach_further_but_not_elsewhere() -> None:
    (found,) = searches(DP, search={"dp-sgd": {"clip": [0.5, 10]}})
    axis = found.space.names["clip"].search
    assert (axis.low, axis.high) == (0.5, 10)
    assert "leaves nothing" in str(refusal(DP, search={"dp-sgd": {"clip": [10, 20]}}))
    assert "unknown axis 'clipp'" in str(refusal(DP, search={"dp-sgd": {"clipp": [1, 2]}}))
    assert "does not tune sgd" in str(refusal(DP, search={"sgd": {"rate": [0.1, 0.2]}}))


def test_a_method_that_searches_by_itself_is_left_out_by_name() -> None:
    grids = [{**DP, "epsilon": 1}, {**DP, "method": "private-search"}]
    sweep, _ = read_sweep({"grid": grids}, "test")
    both = find_searches(sweep, TuneTable())
    assert [each.method for each in both.found] == ["dp-sgd"]
    assert both.left_out == ["private-search"]
    with pytest.raises(SpecError) as caught:
        searches(DP | {"method": "private-search"})
    assert caught.value.field == "method" and caught.value.value == ("private-search",)


def test_numbered_settings_and_several_sizes_are_refused() -> None:
    assert "numbered setting" in str(refusal(DP | {"setting": 1}))
    sizes = {"workload": "digits-linear", "method": "sgd", "n_train": 600}
    assert "n_train has several values" in str(refusal(DP | {"n_train": 500}, sizes))


def test_a_gap_is_for_methods_without_an_epsilon() -> None:
    refuse_gap(searches({"workload": "digits-linear", "method": "sgd"}))
    with pytest.raises(SpecError) as caught:
        refuse_gap(searches(DP))
    assert caught.value.value == ("dp-sgd",)


class Pool(OwnData):
    """A pool of any size."""

    size = 1000

    def pool(self) -> Records:
        generator = torch.Generator().manual_seed(0)
        labels = torch.arange(self.size) % self.classes
        return Records(torch.randn(self.size, super().pool().x.shape[1], generator=generator), labels)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    workloads.family.members[made.name] = made
    yield made
    del workloads.family.members[made.name]


@pytest.mark.parametrize(
    ("n_train", "expected"), [(500, (500, 500)), (800, (800, 200)), (801, (800, 200)), (1000, (800, 200))]
)
def test_two_hundred_records_judge_or_fewer_train(
    pool: Pool, n_train: int, expected: tuple[int, int]
) -> None:
    assert find_sizes(pool, n_train) == expected


def test_a_sixth_of_a_large_pool_judges(pool: Pool) -> None:
    pool.size = 3000
    assert find_sizes(pool, 3000) == (2500, 500)


def test_a_pool_that_cannot_be_shared_is_refused(pool: Pool) -> None:
    pool.size = 210
    with pytest.raises(SpecError) as caught:
        find_sizes(pool, 200)
    assert caught.value.field == "n_train" and caught.value.value == 200
