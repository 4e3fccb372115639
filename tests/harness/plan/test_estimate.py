import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import methods
from harness.jobs.probe import probe
from harness.plan.estimate import ATTACK_SECONDS, Device, estimate, expected
from harness.plan.plan import Plan
from harness.plan.sweep_file import Sweep
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from harness.store.result import Result
from tests.harness import simulated

DEVICES: tuple[Device, ...] = ("cpu", "cuda")
SMALL = {"steps": 30, "batch_size": 8, "learning_rate": 0.1}


def training(method: str = "sgd", index: int = 0, **params: Any) -> Task:
    plugin = Plugin(method, methods.family.get(method).version)
    cell = Cell(Plugin("digits-linear", "1"), 718, plugin, {**SMALL, **params}, 0)
    return Task("train", cell, index=index)


def plan(*tasks: Task, done: frozenset[str] = frozenset()) -> Plan:
    return Plan(Sweep("sweep", 2, 0, (), ()), (), tasks, done, {})


def phase(steps: int, seconds: float, peak: int) -> Json:
    return simulated.phase(steps, seconds / steps, 0) | {"total_seconds": seconds, "peak_memory_bytes": peak}


def trained(task: Task, **more: Any) -> Result:
    return simulated.ended(task, **simulated.training(task, 0.9) | more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three trainings of 100 steps of 10, 20 and 90 ms, each with one further second."""
    store = Store.open(tmp_path / "store", create=True)
    for index, (seconds, peak) in enumerate(((1.0, 5), (2.0, 7), (9.0, 6))):
        task = training(index=index, steps=100)
        store.add(task)
        phases = {"train": phase(100, seconds, peak)}
        store.publish(trained(task, wall_seconds=seconds + 1.0, phases=phases))
    return store


def test_recorded_trainings_estimate_the_cost_of_their_kind(store: Store) -> None:
    attack = replace(training(), kind="attack", models=2, attack=Plugin("loss", "1"))
    found = estimate(plan(training(index=5), training(index=6), attack), store)
    assert found is not None
    assert found.seconds == pytest.approx(2 * (30 * 0.02 + 1.0) + ATTACK_SECONDS)
    assert found.memory_bytes == 7
    assert {cost.source for cost in found.costs.values()} == {"recorded, 3 trainings"}


def test_damaged_records_give_no_times(store: Store) -> None:
    for index, phases in enumerate(([], {"train": {}}, {"train": None}, "many"), start=10):
        task = training(index=index, steps=100)
        store.add(task)
        store.publish(trained(task, wall_seconds=1.0, phases=phases))
    damaged = training(index=0, steps=100)
    (store.folder(damaged.key) / "spec.json").write_text("{")
    (store.tasks / "00").mkdir(exist_ok=True)
    (store.tasks / "00" / ("0" * 32)).write_text("no folder")
    found = estimate(plan(training(index=5)), store)
    assert found is not None
    assert {cost.source for cost in found.costs.values()} == {"recorded, 2 trainings"}


def test_each_kind_of_device_is_estimated_from_its_own(store: Store) -> None:
    for index, device in enumerate(("NVIDIA A100", "NVIDIA H100", "cpu"), start=10):
        task = training(index=index, steps=100)
        store.add(task)
        phases = {"train": phase(100, 0.1, 2**30)}
        store.publish(trained(task, wall_seconds=0.1, phases=phases, provenance={"device": device}))
    task = training(index=5)
    found = {device: expected([task], store, device)[task.key] for device in DEVICES}
    assert {device: cost.source for device, cost in found.items()} == {
        "cpu": "recorded, 4 trainings",
        "cuda": "recorded, 2 trainings",
    }
    assert found["cuda"].seconds == pytest.approx(30 * 0.001)
    assert found["cuda"].memory_bytes == 2**30
    planned = estimate(plan(task), store, device="cuda")
    assert planned is not None
    assert planned.seconds == pytest.approx(30 * 0.001)


def test_hours_on_a_cpu_plan_nothing_on_a_gpu(store: Store) -> None:
    assert estimate(plan(training(index=5)), store, device="cuda") is None
    assert expected([training(index=5)], store, "cuda") == {}


def test_done_tasks_cost_nothing(store: Store) -> None:
    task = training(index=5)
    found = estimate(plan(task, done=frozenset([task.key])), store)
    assert found is not None
    assert (found.seconds, found.memory_bytes) == (0.0, 0)


def publish(store: Store, done: Task) -> None:
    """Two phases of 50 steps and one second each, and no further time."""
    store.add(done)
    each = phase(50, 1.0, 5)
    store.publish(trained(done, wall_seconds=2.0, phases={"teachers": each, "student": each}))


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "empty", create=True)


def test_a_method_without_a_parameter_steps_is_taken_to_do_as_many_as_it_did(empty: Store) -> None:
    done, task = (
        replace(each, cell=replace(each.cell, params={})) for each in (training(), training(index=5))
    )
    publish(empty, done)
    found = estimate(plan(task), empty)
    assert found is not None
    assert found.seconds == pytest.approx(2.0)


def test_all_phases_scale_with_the_requested_steps(empty: Store) -> None:
    publish(empty, training(steps=10))
    found = estimate(plan(training(index=5, steps=30)), empty)
    assert found is not None
    assert found.seconds == pytest.approx(3 * 2.0)


def test_without_records_and_without_probing_nothing_is_known(store: Store, tmp_path: Path) -> None:
    assert estimate(plan(training("dp-sgd", noise_multiplier=1.0)), store) is None
    assert estimate(plan(training()), None) is None
    assert estimate(plan(training()), Store(tmp_path / "none")) is None


def test_a_probe_trains_a_moment_and_writes_nothing(tmp_path: Path) -> None:
    found = estimate(plan(training(steps=10_000)), Store(tmp_path / "none"), probe)
    assert found is not None
    (cost,) = found.costs.values()
    assert re.fullmatch(
        "probe of ([1-9]|1[0-9]|20) steps", cost.source
    )  # 20, or as many as fit into the time
    assert 0.1 < found.seconds < 10_000
    assert found.memory_bytes > 50_000_000
    assert list(tmp_path.iterdir()) == []
