"""The contract of methods. A new file in methods/ is tested by existing."""

import itertools
from pathlib import Path

import pytest
import torch

import methods
from harness.checks import method_contract as contract
from harness.checks.method_contract import MEMBERS, METHOD, STEPS, CheckedMethod
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Task
from tests.contracts.held import hold
from tests.second_device.fixtures import on_both

every_method = pytest.mark.parametrize("name", methods.family.names())


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    # One folder for the whole run: the same noise is solved for once.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@every_method
def test_it_describes_itself(name: str) -> None:
    hold(contract.describes_itself, CheckedMethod(name))


@every_method
def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    hold(contract.same_bits, CheckedMethod(name))


@every_method
def test_another_seed_gives_other_bits(name: str) -> None:
    hold(contract.other_bits, CheckedMethod(name))


@pytest.mark.slow
@every_method
@pytest.mark.parametrize(
    ("device", "step"),
    [
        *(("cpu", step) for step in (1, STEPS // 2, STEPS - 1)),
        pytest.param("second", 3, marks=pytest.mark.second_device),
    ],
    indirect=["device"],
)
def test_it_resumes_to_the_same_bits(name: str, device: torch.device, step: int) -> None:
    hold(contract.resumes, CheckedMethod(name, device, stops=(step,)))


@pytest.mark.slow
@every_method
@on_both
def test_it_takes_empty_batches(name: str, device: torch.device) -> None:
    hold(contract.takes_empty_batches, CheckedMethod(name, device))


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("count", [MEMBERS - 1, MEMBERS + 1, 8])
def test_it_takes_one_member_more_or_less(name: str, count: int) -> None:
    hold(contract.takes_any_count, CheckedMethod(name, counts=(count,)))


@every_method
def test_it_takes_members_of_one_class(name: str) -> None:
    hold(contract.takes_one_class, CheckedMethod(name))


@every_method
def test_it_refuses_batches_larger_than_its_members_or_needs_none(name: str) -> None:
    hold(contract.refuses_large_batches, CheckedMethod(name))


@every_method
@on_both
def test_an_infinite_feature_counts_as_nothing_or_ends_as_diverged(name: str, device: torch.device) -> None:
    hold(contract.survives_infinity, CheckedMethod(name, device))


@every_method
def test_the_referee_can_price_it(name: str) -> None:
    hold(contract.can_be_priced, CheckedMethod(name))


@every_method
@on_both
def test_saved_weights_are_the_released_predictor(name: str, device: torch.device) -> None:
    hold(contract.loads_again, CheckedMethod(name, device))


@every_method
def test_it_declares_that_it_refuses_batch_normalisation(name: str) -> None:
    hold(contract.declares_per_example, CheckedMethod(name))


@pytest.mark.slow
@every_method
def test_it_never_sees_non_members(name: str) -> None:
    hold(contract.sees_members_only, CheckedMethod(name))


@every_method
def test_its_search_space_is_complete_and_valid(name: str) -> None:
    hold(contract.declares_a_space, CheckedMethod(name))


@every_method
def test_it_reads_every_searched_parameter(name: str) -> None:
    hold(contract.reads_its_space, CheckedMethod(name))


def test_every_check_of_the_contract_is_held_above() -> None:
    held = {name for each in METHOD for name, value in vars(contract).items() if value is each}
    assert len(held) == len(METHOD)
    text = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in held if f"contract.{name}," not in text} == set()


def test_members_are_exactly_n_train_and_redrawn_for_every_model() -> None:
    from harness.jobs.setup import membership

    sweep = {"grid": [{"workload": "digits-linear", "method": "sgd"}], "models": 4}
    tasks = [task for task in make_plan(*read_sweep(sweep, "test"), None).tasks if task.kind == "train"]
    masks = [membership(task.cell, task.index, 1437) for task in tasks]
    assert all(int(mask.sum()) == 718 for mask in masks)
    shared = [int((one & other).sum()) for one, other in itertools.pairwise(masks)]
    # Two independent halves share a quarter of the pool: 359 +- 19 (hypergeometric, two sigma).
    assert all(300 < count < 420 for count in shared)
    assert torch.equal(masks[0], membership(tasks[0].cell, 0, 1437))
    dp = {"grid": [{"workload": "digits-linear", "method": "dp-sgd", "epsilon": 8, "steps": 5}], "models": 1}
    other = make_plan(*read_sweep(dp, "test"), None).tasks[0]
    assert isinstance(other, Task)
    assert torch.equal(masks[0], membership(other.cell, 0, 1437)), "methods are compared on the same members"
