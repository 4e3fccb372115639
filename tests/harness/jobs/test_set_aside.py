"""Members that a method sets aside: neither members nor non-members, from the training to the figures."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from safetensors.numpy import load
from safetensors.numpy import save as save_arrays
from torch import Tensor

import methods
import privbench
import workloads
from harness.jobs.attack import gather, read_signals, read_trainings
from harness.jobs.loop import Stop, run_task
from harness.plan.canaries import cell_records
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Cell, Plugin
from harness.store import Store
from harness.store.result import Result
from methods.base import Params, Problem, Released, Run
from workloads.base import Records

MODELS, N_TRAIN, SHARE = 3, 718, 4


class KeepsSomeParams(Params):
    steps: int = 3
    wrong: str = ""


class KeepsSome:
    """Memorises its members except every fourth, which it declares as set aside."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "a table of its members"
    source: ClassVar[str] = "none"
    guarantee: ClassVar[str] = "none"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[KeepsSomeParams]] = KeepsSomeParams

    def train(self, members: Records, problem: Problem, params: KeepsSomeParams, run: Run) -> Released:
        aside = torch.arange(0, len(members), SHARE)
        kept = torch.ones(len(members), dtype=torch.bool)
        kept[aside] = False
        model = problem.model(run.seed("init"))
        for _ in run.steps("train", params.steps, {"model": model}):
            pass
        known = Records(members.x[kept], members.y[kept])
        return Released(Table(known, problem.classes), NonPrivateDpEvent(), {}, declared(params.wrong, aside))

    def skeleton(self, problem: Problem, params: KeepsSomeParams) -> torch.nn.Module:
        raise AssertionError("no attack here loads a model")


def declared(wrong: str, aside: Tensor) -> Tensor:
    return {"": aside, "mask": aside > 3, "range": aside + 10_000, "all": torch.arange(N_TRAIN)}[wrong]


class Table(torch.nn.Module):
    """Predicts memorised records correctly, and others wrongly."""

    def __init__(self, known: Records, classes: int) -> None:
        super().__init__()
        self.x = torch.nn.Buffer(known.x)
        self.y = torch.nn.Buffer(torch.nn.functional.one_hot(known.y, classes).float())

    def forward(self, x: Tensor) -> Tensor:
        same = (torch.cdist(x, self.x) < 1e-6).float()
        return 9 * same @ self.y - 1e-3 * x[:, :1] * torch.eye(10)[0]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A sweep of the table on digits, attacked."""
    path = tmp_path_factory.mktemp("aside") / "store"
    patch = pytest.MonkeyPatch()
    patch.setitem(methods.family.members, "keeps-some", KeepsSome())
    attacks = ["loss", "lira", "rmia"]
    grid = {"workload": "digits-linear", "method": "keeps-some", "canary": "near-duplicate", "canaries": 40}
    plan = make_plan(*read_sweep({"grid": [grid], "models": MODELS, "attacks": attacks}, "aside"), None)
    store = Store.open(path, create=True)
    store.add(*plan.tasks)
    assert {run_task(store, task.key, Stop()) for task in plan.tasks} == {"done"}
    yield plan, store
    patch.undo()


@pytest.mark.slow
def test_the_harness_knows_whose_records_they_are(swept: Any) -> None:
    plan, store = swept
    records = cell_records(workloads.family.get("digits-linear"), plan.cells[0])
    for result in read_trainings(plan.cells[0], MODELS, store):
        signals = load(store.read_artefact(result, "signals"))
        members, aside = signals["members"], signals["set_aside"]
        assert not (aside & ~members).any()
        # Members in order: those of the pool, then two rows of every included canary.
        owners = [row for row in np.flatnonzero(members) for _ in range(2 if row >= len(records.pool) else 1)]
        assert set(np.flatnonzero(aside)) == set(owners[::SHARE])
        assert result.training.set_aside == aside.sum()


@pytest.mark.slow
def test_accuracies_are_without_them(swept: Any) -> None:
    """The table is right about its training records only."""
    plan, store = swept
    for result in read_trainings(plan.cells[0], MODELS, store):
        assert result.training.metrics.train_accuracy == 1.0, "three quarters if they counted"
        others = result.training.metrics.nonmember_accuracy
        assert others is not None and others < 0.2


@pytest.mark.slow
def test_attacks_and_the_blind_check_count_them_as_neither(swept: Any) -> None:
    plan, store = swept
    collect(store.path)
    signals = read_signals(read_trainings(plan.cells[0], MODELS, store), store)
    own = slice(signals["members"].shape[1] - 40)
    members, aside = signals["members"][:, own], signals["set_aside"][:, own]
    rows = query(store.path, "select attack, auc, n_members, n_nonmembers, valid from attack_result").arrow
    found = {row["attack"]: row for row in rows.to_pylist()}
    assert set(found) == {"loss", "lira", "rmia", "strongest", "blind"}
    for row in found.values():
        assert row["n_members"] == int((members & ~aside).sum()) < int(members.sum())
        assert row["n_nonmembers"] == int((~members).sum())
    assert found["loss"]["auc"] == 1.0, "a record set aside looks like a non-member"
    assert found["blind"]["valid"]
    runs = query(store.path, "select set_aside from runs order by index").arrow.to_pylist()
    assert [row["set_aside"] for row in runs] == signals["set_aside"].sum(axis=1).tolist(), "canaries too"
    attack = next(task for task in plan.tasks if task.kind == "attack" and task.attack.name == "loss")
    frame = privbench.open_store(store.path).scores(attack.key)
    assert len(frame) == int((~signals["set_aside"]).sum())


@pytest.mark.slow
def test_old_signals_set_no_record_aside(swept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, store = swept
    read = Store.read_artefact

    def older(self: Store, result: Result, name: str) -> bytes:
        arrays = load(read(self, result, name))
        return save_arrays({key: value for key, value in arrays.items() if key != "set_aside"})

    monkeypatch.setattr(Store, "read_artefact", older)
    task = next(task for task in plan.tasks if task.kind == "attack")
    evidence = gather(task, store, read_trainings(plan.cells[0], MODELS, store))
    assert evidence.evaluated.all()
    np.testing.assert_array_equal(evidence.included, evidence.members)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("mask", "a vector of int64 rows"),
        ("range", "the members are rows 0 to 717"),
        ("all", "set aside all of its 718 members"),
    ],
)
def test_a_wrong_declaration_fails_the_task(
    wrong: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(methods.family.members, "keeps-some", KeepsSome())
    grid = {"workload": "digits-linear", "method": "keeps-some", "wrong": wrong}
    task = make_plan(*read_sweep({"grid": [grid], "models": 1}, "aside"), None).tasks[0]
    store = Store.open(tmp_path / "store", create=True)
    store.add(task)
    run_task(store, task.key, Stop())
    result = store.result(task.key)
    assert result is not None
    assert result.status == "failed"
    assert problem in str(result.message)


# -- canaries --------------------------------------------------------------------------------------


def test_a_canary_with_one_copy_set_aside_is_neither() -> None:
    digits = workloads.family.get("digits-linear")
    pairs = Cell(Plugin("digits-linear", "1"), N_TRAIN, Plugin("sgd", "1"), {}, 0, "near-duplicate", 4, "2")
    records, pool = cell_records(digits, pairs), len(digits.pool())
    mask = torch.zeros(pool + 4, dtype=torch.bool)
    mask[[5, 7, pool, pool + 2]] = True
    members = records.members(mask)
    assert len(members) == 2 + 2 * 2
    for rows, owners in (([1], [7]), ([3], [pool]), ([0, 4], [5, pool + 2]), ([], [])):
        found = records.set_aside(mask, torch.tensor(rows, dtype=torch.int64))
        assert found.nonzero().flatten().tolist() == owners
        assert len(found) == len(records.candidates)
