"""pd-sgd on workloads: the paper's settings in the recipes, and Tables 7 and 9 on real data."""

from typing import TYPE_CHECKING, Any

import pytest
import torch

import workloads
from harness.jobs.setup import per_example_loss
from harness.papers.published_tables import Published, published
from harness.plan.benches import plan_benches
from harness.plan.measure import Measure
from harness.plan.plan import make_plan
from harness.plan.sweep_file import find_sweep, read_sweep
from methods.base import Problem
from methods.pd_sgd.pd_sgd import PdSgdParams, method
from workloads.errors import SpecError
from workloads.recipe import recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.methods.conftest import SimplestRun

SETTINGS = [each for each in published() if each.table.name == "pd-sgd-table-13"]


@pytest.mark.parametrize("printed", SETTINGS, ids=lambda each: each.key)
def test_the_recipes_hold_the_settings_of_table_13(printed: Published) -> None:
    name, number = str(printed.cell.workload), printed.cell.label.rpartition(" ")[2]
    if name not in workloads.family.names():
        pytest.skip(f"no workload {name} yet")
    book = recipe(workloads.family.get(name))
    if printed.cell.lost:
        with pytest.raises(SpecError, match="cannot be read") as caught:
            book.settings("pd-sgd", PdSgdParams.model_fields, number)
        assert (caught.value.field, caught.value.value) == ("setting", number)
        return
    settings = book.settings("pd-sgd", PdSgdParams.model_fields, number)
    values: dict[str, Any] = {parameter: setting.at(None) for parameter, setting in settings.items()}
    expected = {**printed.cell.params, **printed.cell.stated}
    assert {parameter: values[parameter] for parameter in expected} == expected
    assert all(settings[parameter].source == "paper" for parameter in expected)
    assert PdSgdParams(**values).ablation == "full"


def test_the_sweep_of_the_anomalous_batch_goes_from_no_to_all_labels_flipped() -> None:
    plan = make_plan(*read_sweep(*find_sweep("papers/pd-sgd-anomalous")), None)
    shares = [cell.params["anomalous_share"] for cell in plan.cells]
    assert shares == pytest.approx([step / 10 for step in range(11)])
    assert {cell.params["batches"] for cell in plan.cells} == {5}


def test_a_number_of_batches_can_be_benched_beside_batches_of_any_size() -> None:
    grid: dict[str, list[Any]] = {"workload": ["shape-linear-768x10"], "method": ["pd-sgd"], "batches": [4]}
    (task,) = plan_benches(grid, Measure())
    assert task.timing is not None
    assert list(task.timing.variants) == ["sgd", "pd-sgd", "sgd again"]
    assert task.timing.variants["pd-sgd"].params["batch_size"] is None


@pytest.mark.data
def test_on_location_30_the_rejection_rate_falls_with_gamma_and_rises_with_t(
    run_of: "Callable[[int], SimplestRun]",
) -> None:
    workload = workloads.family.get("location30-linear")
    if reason := workload.missing():  # type: ignore[attr-defined]  # of workloads on published data
        pytest.skip(reason)
    members = workload.pool().take(torch.arange(workload.n_train))
    problem = Problem(workload.classes, workload.model, per_example_loss)

    def rate(**given: Any) -> float:
        settings: dict[str, Any] = {"sigma": 0.01, "gamma": 2100.0, "T": 3, "batches": 10}
        params = PdSgdParams(**(settings | {"steps": 60, "learning_rate": 0.3} | given))
        return method.train(members, problem, params, run_of(0)).stats["rejection_rate"]

    by_gamma = [rate(gamma=gamma) for gamma in (1700.0, 2000.0, 2500.0)]
    by_count = [rate(T=count) for count in (2, 6, 9)]
    assert by_gamma == sorted(by_gamma, reverse=True)
    assert by_count == sorted(by_count)
    assert by_gamma[0] > 0.9
    assert by_gamma[-1] < 0.1
    assert by_count[-1] - by_count[0] > 0.5
