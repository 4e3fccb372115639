"""One setup for all runs of a method: trainings, benches, probes and attacks get the same bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import methods
import workloads
from harness.jobs.attack import gather, read_trainings
from harness.jobs.bench.bench import set_up
from harness.jobs.loop import Stop, run_task
from harness.jobs.probe import probe
from harness.jobs.setup import Setup, membership
from harness.jobs.train import train
from harness.plan.benches import plan_benches
from harness.plan.canaries import CellRecords, cell_records, coins
from harness.plan.measure import Measure
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from methods.base import Assisted, Problem, Released
from methods.sgd import Sgd
from workloads.base import Public, Records, Workload
from workloads.errors import SpecError

CPU = torch.device("cpu")
GIVEN: dict[str, Any] = {"workload": "digits-linear", "method": "sgd", "steps": 2}
PATE = {"method": "pate", "noise": 5.0, "teachers": 5, "queries": 20, "teacher_steps": 3, "steps": 3}


def planned(**grid: Any) -> list[Task]:
    return list(make_plan(*read_sweep({"grid": [GIVEN | grid], "models": 2}, "test"), None).tasks)


def timed(*names: str) -> Task:
    grid: dict[str, list[Any]] = {"workload": ["digits-linear"], "method": list(names), "batch_size": [32]}
    (task,) = plan_benches(grid, Measure(steps=1, warm_up=1, memory_steps=2))
    return task


class Seen:
    """The inputs of a method, as bits."""

    def __init__(self, members: Records, problem: Problem, params: Any) -> None:
        self.tensors = [members.x.clone(), members.y.clone(), *weights(problem.model(3))]
        self.classes, self.loss, self.public = problem.classes, problem.loss, problem.public
        self.params = params

    def same(self, other: "Seen") -> bool:
        tensors = len(self.tensors) == len(other.tensors) and all(
            map(torch.equal, self.tensors, other.tensors)
        )
        kept = (self.classes, self.loss, self.public) == (other.classes, other.loss, other.public)
        return tensors and kept and self.params == other.params


def weights(model: nn.Module) -> list[Tensor]:
    return [each.detach().clone() for each in model.parameters()]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """The inputs of `sgd`, for each training."""
    found: list[Seen] = []
    plain = Sgd.train

    def spy(self: Sgd, members: Records, problem: Problem, params: Any, run: Any) -> Released:
        found.append(Seen(members, problem, params))
        return plain(self, members, problem, params, run)

    monkeypatch.setattr(Sgd, "train", spy)
    return found


@pytest.mark.slow
def test_training_probe_and_bench_are_given_the_same_bits(seen: list[Seen], tmp_path: Path) -> None:
    bench = timed("dp-sgd")
    training = Task("train", bench.cell)
    ways: list[Callable[[], object]] = [
        lambda: train(training, CPU, tmp_path, lambda: False),
        lambda: probe(training),
        lambda: run_bench(bench, tmp_path / "store"),
    ]
    first = []
    for way in ways:
        seen.clear()
        way()
        first.append(seen[0])
    assert all(each.same(first[0]) for each in first)
    setup = Setup(bench.cell, 0, CPU)
    assert Seen(setup.members, setup.problem, setup.params).same(first[0])
    assert not Seen(Setup(bench.cell, 1, CPU).members, setup.problem, setup.params).same(first[0])


def run_bench(task: Task, path: Path) -> None:
    store = Store.open(path, create=True)
    store.add(task)
    assert run_task(store, task.key, Stop()) == "done"


@pytest.mark.slow
@pytest.mark.parametrize("canaries", [{}, {"canary": "near-duplicate", "canaries": 20}])
def test_an_attack_reads_the_members_and_records_of_the_trainings(
    canaries: dict[str, Any], tmp_path: Path
) -> None:
    tasks = planned(**canaries)
    trainings = [task for task in tasks if task.kind == "train"]
    store = Store.open(tmp_path / "store", create=True)
    store.add(*tasks)
    assert {run_task(store, task.key, Stop()) for task in trainings} == {"done"}
    attack = next(task for task in tasks if task.kind == "attack")
    evidence = gather(attack, store, read_trainings(attack.cell, 2, store))
    for index, task in enumerate(trainings):
        setup = Setup(task.cell, index, CPU)
        assert torch.equal(torch.from_numpy(evidence.members[index]), setup.mask)
        assert torch.equal(setup.records.candidates.x, evidence.pool.x)
        assert torch.equal(setup.records.candidates.y, evidence.pool.y)
        assert setup.params.model_dump() == dict(task.cell.params)
        shared = evidence.released(index)
        assert [each.shape for each in weights(shared)] == [
            each.shape for each in weights(setup.problem.model(0))
        ]


def test_a_mask_is_the_draw_of_members_and_the_coins_of_canaries() -> None:
    cell = planned(canary="near-duplicate", canaries=20)[0].cell
    setup = Setup(cell, 1, CPU)
    pool = len(workloads.family.get("digits-linear").pool())
    assert torch.equal(setup.mask[:pool], membership(cell, 1, pool))
    assert torch.equal(setup.mask[pool:], coins(cell, 1))
    assert len(setup.mask) == pool + 20
    assert len(setup.members) == 718 + 2 * int(coins(cell, 1).sum()), (
        "a canary is included with its near-duplicate"
    )


def test_in_a_bench_all_variants_share_one_copy_of_the_members() -> None:
    bench = timed("dp-sgd", "memguard")
    assert bench.timing is not None
    setups = list(set_up(bench.timing, CPU).values())
    alone = [Setup(setup.cell, 0, CPU) for setup in setups]
    assert len({setup.members.x.data_ptr() for setup in setups}) == 1
    assert len({setup.members.x.data_ptr() for setup in alone}) == len(setups)
    for shared, own in zip(setups, alone, strict=True):
        assert Seen(shared.members, shared.problem, shared.params).same(
            Seen(own.members, own.problem, own.params)
        )


def test_parts_are_made_once_and_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Cell] = []

    def noted(workload: Workload, cell: Cell) -> CellRecords:
        made.append(cell)
        return cell_records(workload, cell)

    monkeypatch.setattr("harness.jobs.setup.cell_records", noted)
    setup = Setup(planned()[0].cell, 0, CPU)
    assert setup.params is setup.params and made == []
    assert setup.members is setup.members and setup.problem is setup.problem
    assert len(made) == 1


def test_only_methods_that_need_public_records_are_given_them() -> None:
    digits = workloads.family.get("digits-linear")
    assert isinstance(digits, Public)
    for name in methods.family.names():
        cell = Cell(Plugin("digits-linear", "1"), 718, Plugin(name, methods.family.get(name).version), {}, 0)
        setup = Setup(cell, 0, CPU)
        assert (setup.public is not None) == isinstance(methods.family.get(name), Assisted), name
    assisted = Setup(planned(**PATE)[0].cell, 0, CPU)
    assert assisted.public is not None and assisted.problem.public is not None
    assert torch.equal(assisted.problem.public, digits.public().x)
    assert len(assisted.records.test) == len(digits.test()) - len(digits.public())


def test_a_version_that_is_not_installed_is_refused_when_it_is_asked_for() -> None:
    cell = Cell(Plugin("digits-linear", "0"), 718, Plugin("sgd", "0"), {}, 0)
    for part in ("workload", "method"):
        with pytest.raises(SpecError) as raised:
            getattr(Setup(cell, 0, CPU), part)
        assert (raised.value.field, raised.value.value) == (part, "0")
