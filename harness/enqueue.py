"""Submit the unfinished tasks of a plan to a backend."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from harness.backends import family
from harness.backends.base import Job, Settings
from harness.plan.estimate import expected
from harness.plan.plan import Plan, purged_trainings
from harness.spec import Task
from harness.store import Store
from harness.store.journal import SweepEntry, SweepRecord


def resend(store: Store, name: str, backend: str, settings: Settings) -> int:
    """Retry a sweep: reset its failures and submit unfinished tasks; return their number."""
    tasks = [store.task(entry.key) for entry in store.sweep(name).tasks]
    for task in tasks:
        task.refuse_other_protocol()
    for task in tasks:
        result = store.result(task.key)
        if result is not None and not result.done:
            store.forget(task.key)
    for key in purged_trainings([task for task in tasks if store.result(task.key) is None], store):
        store.forget(key)
    return submit([task for task in tasks if store.result(task.key) is None], store, name, backend, settings)


def submit(todo: list[Task], store: Store, sweep: str, backend: str, settings: Settings) -> int:
    """Submit unfinished tasks, each after the trainings it needs; return their number."""
    member = family.get(backend)
    costs = expected(todo, store, member.device(settings)) if member.packs else {}
    seconds = {key: cost.seconds for key, cost in costs.items()}
    memory = {key: cost.memory_bytes for key, cost in costs.items()}
    if todo:
        member.submit(jobs_of(todo, seconds, memory), store, sweep, settings)
    return len(todo)


def jobs_of(
    tasks: Iterable[Task], seconds: Mapping[str, float], memory: Mapping[str, int] | None = None
) -> list[Job]:
    """One job per task, with the trainings it needs."""
    sizes = memory or {}
    return [
        Job(
            (task.key,),
            task.needs,
            seconds.get(task.key),
            sizes.get(task.key),
            gpu=task.kind != "attack",
            alone=task.kind == "bench",
        )
        for task in tasks
    ]


def enqueue(plan: Plan, store: Store, backend: str, settings: Settings) -> int:
    """Write the tasks of a plan to the store and submit the unfinished ones; return their number.

    Safe to repeat: tasks that are done are not submitted, running ones are not run twice.
    """
    todo = plan.todo
    for task in todo:
        if store.result(task.key) is not None:
            store.forget(task.key)  # interrupted or purged; replaced by the next result
    store.add(*plan.tasks)  # rewrites specs only if they are missing or damaged
    record = SweepRecord(
        name=plan.sweep.name,
        enqueued=datetime.now(UTC).isoformat(),
        backend=backend,
        settings=settings.dump(),
        cells=[cell.key for cell in plan.cells],
        tasks=[SweepEntry(key=task.key, kind=task.kind, cell=task.cell_key) for task in plan.tasks],
    )
    store.write_sweep(record)
    return submit(todo, store, plan.sweep.name, backend, settings)
