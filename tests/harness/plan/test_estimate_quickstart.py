"""Estimates of a quickstart against its recorded figures: a factor of 1.5 at most."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.backends.schedule import makespan
from harness.enqueue import jobs_of
from harness.jobs.probe import under_load
from harness.plan.estimate import Estimate, Usual, estimate
from harness.plan.plan import Plan
from harness.plan.sweep_file import Sweep
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from tests.harness import simulated

RECORDED: Json = json.loads(Path(__file__).with_name("quickstart_figures.json").read_text())
FACTOR = 1.5


def cell(spec: Json) -> Cell:
    plugins = {name: Plugin(**spec[name]) for name in ("workload", "method")}
    return Cell(**{**spec, **plugins})


CELLS = [cell(spec) for spec in RECORDED["cells"]]


def task(row: Json) -> Task:
    on = CELLS[row["cell"]]
    if row["kind"] == "train":
        return Task("train", on, index=row["index"])
    attack = Plugin(row["attack"], "1")
    return Task("attack", on, models=8, attack=attack, attack_params=row["params"])


ROWS = [(task(row), row) for row in RECORDED["tasks"]]
WORK = sum(row["seconds"] for _, row in ROWS)


def plan(tasks: Sequence[Task], done: frozenset[str] = frozenset()) -> Plan:
    return Plan(Sweep("quickstart", 8, 0, (), ()), tuple(CELLS), tuple(tasks), done, {})


def publish(store: Store, each: Task, row: Json) -> None:
    store.add(each)
    found: dict[str, Any] = {"wall_seconds": row["seconds"]}
    if each.kind == "train":
        steps = int(each.cell.params["steps"])
        inside = row["steps_seconds"]
        phase = simulated.phase(steps, inside / steps, 0)
        phases = {"train": phase | {"total_seconds": inside, "peak_memory_bytes": row["peak"]}}
        found |= simulated.training(each, 0.9) | {"phases": phases}
    else:
        found |= simulated.leakage(0.6)
    assert store.publish(simulated.ended(each, **found))


def recorded_probe(each: Task) -> Usual:
    kind = f"{each.cell.workload.name} {each.cell.method.name}"
    return under_load(Usual(*RECORDED["probes"][kind]), "cpu")


def span(found: Estimate, tasks: Sequence[Task]) -> float:
    return makespan(jobs_of(tasks, found.tasks()), RECORDED["slots"])


def close(estimated: float, truth: float) -> bool:
    return truth / FACTOR < estimated < truth * FACTOR


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def test_probes_foretell_the_quickstart(store: Store) -> None:
    every = [each for each, _ in ROWS]
    found = estimate(plan(every), store, recorded_probe)
    assert found.complete
    assert close(found.seconds, WORK)
    assert close(span(found, every), RECORDED["span_seconds"])


@pytest.mark.parametrize(
    "first",
    [
        lambda each, row: row.get("index", row["cell"]) % 2 == 0,  # half of the models and of the attacks
        lambda each, row: row["cell"] in (0, 1, 2, 5),  # one cell of every workload and method
        # One model of each cell, and not the first of a worker, which loads libraries too.
        lambda each, row: row["cell"] == 0 or row.get("index") == 1,
    ],
    ids=["half", "kinds", "few"],
)
def test_recorded_tasks_foretell_the_rest(store: Store, first: Callable[[Task, Json], bool]) -> None:
    known = [(each, row) for each, row in ROWS if first(each, row)]
    rest = [(each, row) for each, row in ROWS if not first(each, row)]
    assert known and rest
    for each, row in known:
        publish(store, each, row)
    done = frozenset(each.key for each, _ in known)
    found = estimate(plan([each for each, _ in ROWS], done), store)
    assert found.complete
    assert found.by_task.keys() == {each.key for each, _ in rest}
    assert close(found.seconds, sum(row["seconds"] for _, row in rest))


def test_every_part_of_a_training_counts(store: Store) -> None:
    """Steps alone would foretell less than half of the truth."""
    steps = sum(row.get("steps_seconds", 0.0) for _, row in ROWS)
    assert not close(steps, WORK)


def test_attacks_are_foretold_without_any_record() -> None:
    attacks = [(each, row) for each, row in ROWS if each.kind == "attack"]
    found = estimate(plan([each for each, _ in attacks]), None)
    assert close(found.seconds, sum(row["seconds"] for _, row in attacks))
