"""Benches as tasks: the options of a sweep file, the interleaved variants, and their keys."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.enqueue import jobs_of
from harness.plan.benches import again, plan_benches, stamp_now
from harness.plan.declarations import named
from harness.plan.estimate import BENCH_OVERHEAD, estimate
from harness.plan.measure import ANY_DEVICE, Measure
from harness.plan.plan import Plan, make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Task, Timing, read_task
from harness.store import Store
from harness.store.outcomes import Bench, Benched
from harness.store.result import build
from workloads.errors import SpecError

BASELINE = named("plain-baseline")
ENTRY: dict[str, Any] = {"workload": "digits-linear", "method": "dp-sgd"}


def planned(*entries: dict[str, Any], store: Store | None = None, **rest: Any) -> Plan:
    return make_plan(*read_sweep({"bench": list(entries), **rest}, "timed"), store)


def refused(*entries: Any) -> list[str]:
    with pytest.raises(SpecError) as error:
        planned(*entries)
    return error.value.problems


def timing(task: Task) -> Timing:
    assert task.timing is not None
    return task.timing


def test_every_workload_and_batch_size_is_one_task_in_which_all_methods_take_turns() -> None:
    entry = {**ENTRY, "workload": ["digits-linear", "digits-mlp"], "batch_size": [16, 32]}
    plan = planned({**entry, "method": ["dp-sgd", "pd-sgd"], "engine": ["bookkeeping", "opacus"]})
    assert plan.cells == ()
    found = [(task.cell.workload.name, timing(task).batch_size) for task in plan.tasks]
    assert found == [(name, size) for name in ("digits-linear", "digits-mlp") for size in (16, 32)]
    names = list(timing(plan.tasks[0]).variants)
    assert (names[0], names[-1]) == (BASELINE, again(BASELINE))
    assert {"dp-sgd bookkeeping", "dp-sgd opacus"} < set(names)
    assert {cell.params["batch_size"] for cell in timing(plan.tasks[1]).variants.values()} == {32}


@pytest.mark.parametrize("listed", [None, ["engine"], ["engine", "autograd"]])
def test_the_baseline_by_the_engine_stands_beside_the_usual_one(listed: list[str] | None) -> None:
    """By a flag or by its parameter; the usual way stays the yardstick."""
    grid: dict[str, list[Any]] = {"workload": ["digits-linear"], "method": ["dp-sgd"]}
    grid |= {"gradients": listed} if listed else {}
    (task,) = plan_benches(grid, Measure(), both_baselines=listed is None)
    cells = list(timing(task).variants.values())
    ways = [cell.params["gradients"] for cell in cells if cell.method.name == BASELINE]
    assert ways == ["autograd", "engine", "autograd"]
    assert cells[0] == cells[-1] == task.cell
    (usual,) = plan_benches({"workload": ["digits-linear"], "method": ["dp-sgd"]}, Measure())
    assert [cell.params.get("gradients") for cell in timing(usual).variants.values()].count("engine") == 0


def test_a_sweep_may_hold_benches_beside_its_grids() -> None:
    plan = planned(ENTRY, grid=[{"workload": "digits-linear", "method": "sgd"}], models=2)
    kinds = [task.kind for task in plan.tasks]
    assert kinds == ["train", "train", "attack", "bench"]
    bench = plan.tasks[-1]
    assert (bench.cell_key, bench.needs) == (None, ())
    jobs = {job.tasks[0]: job for job in jobs_of(plan.tasks, {})}
    assert [jobs[task.key].alone for task in plan.tasks] == [False, False, False, True]
    assert jobs[bench.key].gpu


def test_the_bench_of_a_sweep_keeps_its_key_and_one_by_hand_gets_another(tmp_path: Path) -> None:
    (one,), (two,) = planned(ENTRY).tasks, planned(ENTRY).tasks
    assert one.key == two.key and timing(one).stamp is None and "stamp" not in one.spec()
    (other,) = planned(ENTRY, seed=1).tasks
    (longer,) = planned({**ENTRY, "measure": {"seconds": 5}}).tasks
    assert len({one.key, other.key, longer.key}) == 3
    grid = {"workload": ["digits-linear"], "method": ["dp-sgd"]}
    by_hand = [plan_benches(grid, Measure(), stamp_now())[0] for _ in range(2)]
    assert len({one.key, *(task.key for task in by_hand)}) == 3
    store = Store.open(tmp_path / "store", create=True)
    store.add(one, *by_hand)
    assert [store.task(task.key) for task in (one, *by_hand)] == [one, *by_hand]
    assert read_task(one.file()).key == one.key


def test_a_finished_bench_is_not_rerun(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    (task,) = planned(ENTRY, store=store).tasks
    store.add(task)
    figures: dict[str, Any] = {
        "workload": "digits-linear",
        "n_train": 10,
        "batch_size": 64,
        "parameters": 1,
        "threads": 1,
    }
    rest: dict[str, Any] = {
        "device": "cpu",
        "clock": "cpu",
        "malloc": {},
        "trustworthy": True,
        "reason": None,
        "methods": [],
    }
    outcome = Bench(bench=Benched(**figures, **rest))
    store.publish(build(task, outcome, started=datetime.now(UTC), wall_seconds=1.0, provenance={}))
    plan = planned(ENTRY, store=store)
    assert (plan.done, plan.todo) == (frozenset({task.key}), [])


def test_it_is_taken_to_last_as_long_as_it_times() -> None:
    cost = estimate(planned({**ENTRY, "measure": {"seconds": 7}}), None)
    assert cost.seconds == pytest.approx(7 * BENCH_OVERHEAD)


def test_the_device_is_the_nodes_unless_one_is_named() -> None:
    assert timing(planned(ENTRY).tasks[0]).settings["device"] == ANY_DEVICE
    named_ = planned({**ENTRY, "measure": {"device": "cuda"}}).tasks[0]  # which need not exist here
    assert timing(named_).settings["device"] == "cuda"


def test_an_epsilon_is_given_to_methods_that_need_one_and_infinity_survives() -> None:
    (task,) = planned({**ENTRY, "epsilon": [math.inf, 1]}).tasks
    variants = [cell.params.get("epsilon") for cell in timing(task).variants.values()]
    assert sorted(each for each in variants if each) == [1.0, math.inf]
    assert read_task(task.file()) == replace(task, notes=read_task(task.file()).notes)
    (usual,) = planned(ENTRY).tasks
    assert 8.0 in [cell.params.get("epsilon") for cell in timing(usual).variants.values()]


@pytest.mark.parametrize("name", ["dpsgd", ["dp-sgd"], {"a": 1}])
def test_an_unknown_method_is_refused_before_anything_is_loaded(name: Any) -> None:
    (problem,) = refused({**ENTRY, "method": [name], "batch_size": 10**6})
    assert problem.startswith("bench 1: unknown method ")


def test_all_problems_are_reported_at_once_with_their_place() -> None:
    problems = refused(
        {**ENTRY, "measure": {"secconds": 1, "rounds": 2}},
        {**ENTRY, "measure": {"steps": 0, "seconds": -1, "threads": True}},
        {**ENTRY, "batch_size": 10**6},
        {**ENTRY, "momentun": 0.9},
    )
    begins = [each.split(":")[0].split(" (")[0] for each in problems]
    assert begins == ["bench 1"] * 2 + ["bench 2"] * 3 + ["bench 3", "bench 4"]
    for given in ("secconds", "steps = 0", "seconds = -1", "threads = True", "momentun"):
        assert any(given in each for each in problems), given


@pytest.mark.parametrize(
    ("entry", "lacking"),
    [
        ({"workload": "digits-linear"}, "method"),
        ({"method": "dp-sgd"}, "workload"),
        ({**ENTRY, "batch_size": []}, "batch_size"),
        ({**ENTRY, "measure": 3}, "measure"),
    ],
)
def test_an_entry_of_another_form_is_refused(entry: dict[str, Any], lacking: str) -> None:
    (problem,) = refused(entry)
    assert problem.startswith("bench 1: ") and lacking in problem


def test_neither_grid_nor_bench_is_an_empty_sweep() -> None:
    with pytest.raises(SpecError) as error:
        make_plan(*read_sweep({"models": 2}, "empty"), None)
    assert "[[grid]]" in str(error.value) and "[[bench]]" in str(error.value)
    assert refused("dp-sgd") and refused([])
