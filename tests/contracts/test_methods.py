"""The contract of methods. A new file in methods/ is tested by existing."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load
from torch import Tensor, nn

import methods
import workloads
from harness.accounting import check, price
from harness.accounting.ledger import expand
from harness.jobs.run import Interrupted, Run
from harness.jobs.setup import per_example_loss
from harness.jobs.train import train
from harness.plan.plan import make_plan
from harness.plan.solving import solve
from harness.plan.sweep_file import read_sweep
from harness.spec import Task
from methods.base import GUARANTEES, Calibrated, Method, Params, Problem, Rebuilt, Released
from tests.second_device.fixtures import on_both
from workloads.base import Records
from workloads.errors import Diverged, SpecError
from workloads.models.mlp import mlp

STEPS = 24
CPU = torch.device("cpu")

every_method = pytest.mark.parametrize("name", methods.family.names())


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    # One folder for the whole run: the same noise is solved for once.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def people(count: int) -> Records:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(count, 6, generator=random)
    return Records(x, torch.randint(3, (count,), generator=random))


def model(seed: int) -> nn.Module:
    return mlp((6, 5, 3), seed)


PROBLEM = Problem(3, model, per_example_loss, public=people(120).x)


def small(method: Method, count: int, batch_size: int = 8) -> Params:
    """The method's defaults, made quick, at epsilon 8 where it has one."""
    wishes = {"steps": STEPS, "batch_size": batch_size, "epsilon": 8.0}
    wishes |= {"teachers": 10, "teacher_steps": STEPS // 2, "classifier_steps": STEPS // 2}
    given: dict[str, Any] = {key: value for key, value in wishes.items() if key in method.Params.model_fields}
    return solve(method, method.Params(**given), count, model)


def released(
    name: str, count: int = 40, batch_size: int = 8, device: torch.device = CPU, **run: Any
) -> Released:
    method, problem = methods.family.get(name), problem_on(device)
    return method.train(people(count), problem, small(method, count, batch_size), Run("seed", device, **run))


def problem_on(device: torch.device) -> Problem:
    return dataclasses.replace(PROBLEM, public=people(120).x.to(device))


def bits(result: Released) -> list[Tensor]:
    return [each.cpu() for each in result.predictor.state_dict().values()]


def equal(one: Released, other: Released) -> bool:
    return all(map(torch.equal, bits(one), bits(other))) and str(one.ledger) == str(other.ledger)


@every_method
def test_it_describes_itself(name: str) -> None:
    method = methods.family.get(name)
    assert method.guarantee in GUARANTEES
    assert method.about
    assert method.source
    assert method.version
    for parameter, info in method.Params.model_fields.items():
        assert info.description, f"{parameter} has no description"


@every_method
def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    torch.manual_seed(1)
    one = released(name)
    torch.manual_seed(2)  # a method may not depend on what was drawn before it
    other = released(name)
    assert equal(one, other)
    assert one.stats == other.stats


@every_method
def test_another_seed_gives_other_bits(name: str) -> None:
    method = methods.family.get(name)
    other = method.train(people(40), PROBLEM, small(method, 40), Run("another seed", CPU))
    assert not equal(released(name), other)


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
def test_it_resumes_to_the_same_bits(name: str, device: torch.device, step: int, tmp_path: Path) -> None:
    whole = released(name, device=device)
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == step

    with pytest.raises(Interrupted):
        released(name, device=device, folder=tmp_path, stop=stop)
    resumed = released(name, device=device, folder=tmp_path)
    assert equal(whole, resumed)
    assert whole.stats == resumed.stats


@pytest.mark.slow
@every_method
@on_both
def test_it_takes_empty_batches(name: str, device: torch.device) -> None:
    """Three members and an expected batch of one: about every third Poisson batch is empty."""
    result = released(name, count=3, batch_size=1, device=device)
    assert all(torch.isfinite(each).all() for each in bits(result))


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("count", [39, 41, 8])
def test_it_takes_one_member_more_or_less(name: str, count: int) -> None:
    result = released(name, count=count)
    assert all(torch.isfinite(each).all() for each in bits(result))


@every_method
def test_it_takes_members_of_one_class(name: str) -> None:
    method, members = methods.family.get(name), people(40)
    alike = Records(members.x, torch.zeros_like(members.y))
    result = method.train(alike, PROBLEM, small(method, 40), Run("seed", CPU))
    assert all(torch.isfinite(each).all() for each in bits(result))


@every_method
def test_it_refuses_batches_larger_than_its_members_or_needs_none(name: str) -> None:
    try:
        result = released(name, count=4, batch_size=8)
    except SpecError as error:
        assert "larger than the 4 members" in str(error)
    else:
        assert all(torch.isfinite(each).all() for each in bits(result))


@every_method
@on_both
def test_an_infinite_feature_counts_as_nothing_or_ends_as_diverged(name: str, device: torch.device) -> None:
    method, members, run = methods.family.get(name), people(40), Run("seed", device)
    members.x[3] = torch.inf
    try:
        result = method.train(members, problem_on(device), small(method, 40), run)
        run.finish()
    except Diverged as error:
        assert "is not finite" in str(error)
    else:
        assert all(torch.isfinite(each).all() for each in bits(result))


@every_method
def test_the_referee_can_price_it(name: str) -> None:
    method = methods.family.get(name)
    result = released(name)
    guarantee = price(result.ledger, 1e-5)
    if isinstance(method, Calibrated):
        check(guarantee, 8.0)
        # As accountants read it: PATE's ledger also holds the votes, which nobody could plan.
        assert str(expand(result.ledger)) == str(expand(method.planned(small(method, 40), 40)))
    if method.guarantee in ("none", "empirical"):
        assert guarantee.epsilon is None


@every_method
@on_both
def test_saved_weights_are_the_released_predictor(name: str, device: torch.device) -> None:
    """They load into a fresh model, or the method's skeleton, which then predicts like the released one."""
    method, predictor = methods.family.get(name), released(name, device=device).predictor
    fresh = method.skeleton(PROBLEM, small(method, 40)) if isinstance(method, Rebuilt) else model(0)
    fresh.load_state_dict(predictor.state_dict())
    asked = people(5).x.to(device)
    with torch.no_grad():
        assert torch.equal(fresh.to(device).eval()(asked).cpu(), predictor(asked).cpu())


@pytest.mark.slow
@every_method
def test_it_never_sees_non_members(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid: dict[str, Any] = {"workload": "digits-linear", "method": name}
    fields = methods.family.get(name).Params.model_fields
    wishes = {"steps": 8, "epsilon": 8, "iterations": 5}
    grid |= {key: value for key, value in wishes.items() if key in fields}
    task = make_plan(*read_sweep({"grid": [grid], "models": 1}, "test"), None).tasks[0]

    workload = workloads.family.get("digits-linear")
    outcome = train(task, CPU, tmp_path / "one", lambda: False)
    mask = load(outcome.artefacts["signals.safetensors"])["members"]
    pool = workload.pool()
    other_x = torch.where(mask[:, None], pool.x, pool.x + 100)
    other_y = torch.where(mask, pool.y, 9 - pool.y)

    class Disturbed(type(workload)):  # type: ignore[misc]
        def pool(self) -> Records:
            return Records(other_x, other_y)

    disturbed = Disturbed(**dataclasses.asdict(workload))  # type: ignore[call-overload]
    monkeypatch.setitem(workloads.family.members, "digits-linear", disturbed)
    again = train(task, CPU, tmp_path / "two", lambda: False)
    assert again.artefacts["model.safetensors"] == outcome.artefacts["model.safetensors"]
    assert again.artefacts["signals.safetensors"] != outcome.artefacts["signals.safetensors"]


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
