"""Submit the unfinished tasks of a plan to a backend."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from harness.backends import family
from harness.backends.base import Job, Settings
from harness.plan.changes.changed import compare, take
from harness.plan.estimate import expected
from harness.plan.plan import Plan, purged_trainings
from harness.spec import Json, Task
from harness.store import Store
from harness.store.fingerprints import accept
from harness.store.journal import Accepted, SweepEntry, SweepRecord
from workloads.errors import SpecError


def resend(store: Store, name: str, backend: str, settings: Settings, accept_changes: bool = False) -> int:
    """Retry a sweep: reset its failures and submit unfinished tasks; return their number.

    ChangedCode if code or data changed since its other tasks were done, unless the user accepts that.
    """
    record = store.sweep(name)
    tasks = [store.task(entry.key) for entry in record.tasks]
    for task in tasks:
        task.refuse_other_protocol()
    _record(store, record, take(compare(_finished(tasks, store), store), accept_changes))
    for task in tasks:
        result = store.result(task.key)
        if result is not None and not result.done:
            store.reset(task.key)
    for key in purged_trainings([task for task in tasks if store.result(task.key) is None], store):
        store.reset(key)
    return submit([task for task in tasks if store.result(task.key) is None], store, name, backend, settings)


def _finished(tasks: Iterable[Task], store: Store) -> Iterator[tuple[Task, Json]]:
    """The tasks that are done, with their provenance."""
    for task in tasks:
        result = store.result(task.key)
        if result is not None and result.done:
            yield task, result.provenance


def _record(store: Store, record: SweepRecord, accepted: Sequence[Accepted]) -> None:
    """Record accepted changes with the sweep and beside the results."""
    for change in accepted:
        accept(store, change)
    if list(accepted) != record.accepted:
        store.write_sweep(record.model_copy(update={"accepted": list(accepted)}))


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


def refuse_absent_data(plan: Plan, backend: str) -> None:
    """SpecError if the backend's jobs would read data that are not on this machine."""
    if plan.absent and family.get(backend).reads_here:
        problems = [f"workload {name}: {why}" for name, why in plan.absent.items()]
        raise SpecError(problems, field="workload", value=tuple(plan.absent))


def enqueue(plan: Plan, store: Store, backend: str, settings: Settings) -> int:
    """Write the tasks of a plan to the store and submit the unfinished ones; return their number.

    Safe to repeat: tasks that are done are not submitted, running ones are not run twice.
    """
    refuse_absent_data(plan, backend)
    todo = plan.todo
    for task in todo:
        if store.result(task.key) is not None:
            store.reset(task.key)  # interrupted or purged; replaced by the next result
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
    _record(store, record, plan.accepted)
    return submit(todo, store, plan.sweep.name, backend, settings)
