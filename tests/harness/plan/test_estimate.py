import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import methods
from harness.jobs.probe import Watch, probe, whole_phase
from harness.plan.attack_cost import FIXED_SECONDS, assumed_attack
from harness.plan.estimate import Device, Usual, estimate, expected
from harness.plan.plan import Plan
from harness.plan.sweep_file import Sweep
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from harness.store.result import Result
from tests.harness import simulated
from workloads.errors import BenchError

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
    attack = attacking()
    found = estimate(plan(training(index=5), training(index=6), attack), store)
    assert found.complete
    assert found.seconds == pytest.approx(2 * (30 * 0.02 + 1.0) + assumed_attack(attack).seconds)
    assert found.tasks()[attack.key] == assumed_attack(attack).seconds
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
    assert planned.seconds == pytest.approx(30 * 0.001)


def test_hours_on_a_cpu_plan_nothing_on_a_gpu(store: Store) -> None:
    found = estimate(plan(training(index=5)), store, device="cuda")
    assert (found.complete, found.by_task) == (False, {})
    assert expected([training(index=5)], store, "cuda") == {}


def test_done_tasks_cost_nothing(store: Store) -> None:
    task = training(index=5)
    found = estimate(plan(task, done=frozenset([task.key])), store)
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
    assert found.seconds == pytest.approx(2.0)


def test_all_phases_scale_with_the_requested_steps(empty: Store) -> None:
    publish(empty, training(steps=10))
    found = estimate(plan(training(index=5, steps=30)), empty)
    assert found.seconds == pytest.approx(3 * 2.0)


def test_without_records_and_without_probing_a_training_is_unknown(store: Store, tmp_path: Path) -> None:
    for task, where in (
        (training("dp-sgd", noise_multiplier=1.0), store),
        (training(), None),
        (training(), Store(tmp_path / "none")),
    ):
        found = estimate(plan(task), where, unprobed="nobody wants to")
        ((reason, keys),) = found.unknown.items()
        assert keys == (task.key,)
        assert "cpu" in reason and "nobody wants to" in reason


def test_what_is_known_is_counted_beside_what_is_not(store: Store) -> None:
    """One failing probe leaves the rest of the estimate."""

    def failing(error: Exception) -> Callable[[Task], Usual]:
        def probe(task: Task) -> Usual:
            raise error

        return probe

    known, unknown = training(index=5), training("dp-sgd", noise_multiplier=1.0)
    for trouble, part in (
        (BenchError("long words", field="data set", value="mnist"), "privbench data fetch mnist"),
        (BenchError("its features are missing"), "its features are missing"),
        (ZeroDivisionError("of a plug-in"), "ZeroDivisionError: of a plug-in"),
    ):
        found = estimate(plan(known, unknown, attacking()), store, failing(trouble))
        assert found.by_task.keys() == {known.key, attacking().key}
        assert found.costs.keys() == {known.cell.key}
        ((reason, keys),) = found.unknown.items()
        assert keys == (unknown.key,)
        assert part in reason


def test_a_kind_is_probed_once(tmp_path: Path) -> None:
    probed = []

    def counted(task: Task) -> Usual:
        probed.append(task.key)
        return Usual(0.5, 2.0, 7, "a probe")

    tasks = [training(index=index, steps=steps) for index in range(3) for steps in (10, 20)]
    found = estimate(plan(*tasks), None, counted)
    assert len(probed) == 1
    assert found.seconds == pytest.approx(3 * (10 * 0.5 + 2.0) + 3 * (20 * 0.5 + 2.0))


def attacking(name: str = "loss", models: int = 2, n_train: int = 718, **params: Any) -> Task:
    cell = replace(training().cell, n_train=n_train)
    return Task("attack", cell, models=models, attack=Plugin(name, "1"), attack_params=params)


def test_a_recorded_attack_scales_with_records_and_models(empty: Store) -> None:
    done = attacking("lira", models=4, mode="online")
    empty.add(done)
    empty.publish(simulated.ended(done, **simulated.leakage(0.6), wall_seconds=FIXED_SECONDS + 1.0))
    for task, times in (
        (attacking("lira", models=8), 2.0),
        (attacking("lira", models=4, n_train=7180), 10.0),
        (attacking("lira", models=2), 0.5),
    ):
        cost = expected([task], empty)[task.key]
        assert cost.seconds == pytest.approx(FIXED_SECONDS + times)
        assert cost.source.startswith("recorded")


def test_attacks_like_the_planned_one_are_preferred(empty: Store) -> None:
    for mode, seconds in (("online", 3.0), ("offline", 9.0)):
        done = attacking("lira", models=4, mode=mode)
        empty.add(done)
        empty.publish(simulated.ended(done, **simulated.leakage(0.6), wall_seconds=seconds))
    for mode, seconds in (("online", 3.0), ("offline", 9.0), ("bayes", 6.0)):
        task = replace(attacking("lira", models=4, mode=mode))
        other = replace(task, cell=replace(task.cell, seed=1))
        assert expected([other], empty)[other.key].seconds == pytest.approx(seconds)


def test_assumed_attacks_cost_by_kind_and_size() -> None:
    quick, learned = assumed_attack(attacking("loss")), assumed_attack(attacking("white-box"))
    assert learned.seconds > 3 * quick.seconds
    assert assumed_attack(attacking("loss", models=2000)).seconds > 10 * quick.seconds
    short, long = (assumed_attack(attacking("dlg", images=8, steps=steps)) for steps in (100, 1000))
    assert long.seconds - FIXED_SECONDS == pytest.approx(10 * (short.seconds - FIXED_SECONDS))


def test_trainings_like_the_planned_one_are_preferred(empty: Store) -> None:
    for batch, seconds in ((8, 1.0), (512, 50.0)):
        task = training(index=batch, steps=100, batch_size=batch)
        empty.add(task)
        empty.publish(trained(task, wall_seconds=seconds, phases={"train": phase(100, seconds, 5)}))
    for batch, seconds in ((8, 1.0), (512, 50.0), (64, 25.5)):
        found = estimate(plan(training(steps=100, batch_size=batch, learning_rate=0.7)), empty)
        assert found.seconds == pytest.approx(seconds)


def test_a_slow_first_step_counts_once() -> None:
    assert whole_phase([30.0, 0.1, 0.1], 1000) == pytest.approx(30.0 + 999 * 0.1)
    assert whole_phase([0.2], 10) == pytest.approx(2.0)
    assert whole_phase([5.0, 5.0, 0.1] + 17 * [0.1], 20) < 13.0


def test_a_slow_first_step_does_not_end_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("harness.jobs.probe.time.monotonic", lambda: now[0])

    def seen(first: float, later: float) -> int:
        now[0], watch = 0.0, Watch()
        for step in range(1000):
            now[0] += later if step else first
            if watch.enough(Positioned(step)):  # type: ignore[arg-type]
                return step + 1
        raise AssertionError("it never ends")

    assert seen(first=30.0, later=0.01) == 20
    assert seen(first=2.0, later=2.0) == 3
    assert seen(first=100.0, later=100.0) == 1


class Positioned:
    def __init__(self, step: int) -> None:
        self.position = ("train", step, 1000)


def test_a_probe_trains_a_moment_and_writes_nothing(tmp_path: Path) -> None:
    found = estimate(plan(training(steps=10_000)), Store(tmp_path / "none"), probe)
    (cost,) = found.costs.values()
    assert re.fullmatch(
        "probe of ([1-9]|1[0-9]|20) steps", cost.source
    )  # 20, or as many as fit into the time
    assert 0.1 < found.seconds < 10_000
    assert found.memory_bytes > 50_000_000
    assert list(tmp_path.iterdir()) == []
