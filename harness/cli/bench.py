"""`privbench bench`: time the steps of methods against the plain baseline, here or through a backend."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import output
from harness.cli.options import (
    JsonOption,
    ProfileOption,
    StoreOption,
    TimeoutOption,
    WideOption,
    backend_names,
    method_names,
    store_path,
    workload_names,
)
from harness.cli.terminal.fitting import Layout
from workloads.errors import SpecError, StoreError

if TYPE_CHECKING:
    from harness.spec import Task
    from harness.store import Store
    from harness.store.outcomes import Benched, Variant


BENCHED = Layout(
    drop=("IQR", "wall ms", "steps", "whole step", "engine"), keep=("method", "CPU ms"), one_line=True
)


def bench(
    workload: Annotated[
        str,
        typer.Option("--workload", help="Workloads, separated by commas.", autocompletion=workload_names),
    ],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="Methods, separated by commas; the baseline is always timed.",
            autocompletion=method_names,
        ),
    ],
    batch_size: Annotated[
        str | None, typer.Option("--batch-size", help="Batch sizes, e.g. 64,512; default: the recipe's.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Per-example gradient engines, separated by commas."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE[,VALUE...] for the methods with this parameter."),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="Target epsilon of methods that need one (default 8).")
    ] = None,
    both_baselines: Annotated[
        bool,
        typer.Option(
            "--both-baselines",
            help="Time the baseline by autograd and by the gradient engine without clipping and noise.",
        ),
    ] = False,
    steps: Annotated[int, typer.Option("--steps", help="Timed steps of each method, at most.")] = 300,
    seconds: Annotated[
        float,
        typer.Option("--seconds", help="Time limit, after which 50 timed steps of each method suffice."),
    ] = 20.0,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu or cuda; default: the GPU if there is one.")
    ] = None,
    threads: Annotated[int, typer.Option("--threads", help="Threads of torch.")] = 1,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            help="The backend to time on; default: this process.",
            autocompletion=backend_names,
        ),
    ] = None,
    profile: ProfileOption = None,
    timeout: TimeoutOption = None,
    store: StoreOption = None,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Time the steps of methods against the plain baseline, interleaved in one process; time, memory, ratios.

    Ratios are of CPU time (on a GPU: time between events) without drawing the batch. The baseline is timed
    twice; if the two differ too much, the machine is too noisy and the output states so.
    """
    from harness.jobs.bench.bench import refuse_missing_device
    from harness.plan.benches import plan_benches, stamp_now
    from harness.plan.measure import ANY_DEVICE, Measure
    from harness.plan.sweep_file import from_options
    from harness.results.collect import collect as gather
    from harness.store import Store
    from workloads.devices import best_device

    given = {"batch_size": batch_size, "engine": engine}
    asked = [*(settings or []), *(f"{name}={value}" for name, value in given.items() if value is not None)]
    names = [each.partition("=")[0] for each in asked] + ["epsilon"] * (epsilon is not None)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError([f"{name} is given twice: give it once" for name in twice])
    if backend is None and (profile is not None or timeout is not None):
        raise SpecError("--profile and --timeout need a --backend: give one")
    grid = from_options(workload, method, epsilon, None, None, asked)["grid"][0]
    opened = Store(store_path(store))
    opened.check()
    here = device or (best_device().type if backend is None else ANY_DEVICE)
    if backend is None:
        refuse_missing_device(here)
    measure = Measure(here, threads, steps, seconds)
    tasks = plan_benches(grid, measure, stamp_now(), both_baselines=both_baselines)
    if backend is None:
        opened = Store.open(opened.path, create=True)
        found = _run_here(tasks, opened, json, wide)
    else:
        found = _send(tasks, opened, backend, profile, timeout, json)
        if not json:
            for key, each in found.items():
                show(key, each, wide)
    if json:
        output.json_out([{"key": key, **each.model_dump()} for key, each in found.items()])
    try:
        gather(opened.path)
    except StoreError as error:  # the database is in use; the figures are in the store
        output.complain(error)
    if len(found) < len(tasks) or any(each.failed for each in found.values()):
        raise typer.Exit(1)


def _run_here(tasks: "list[Task]", store: "Store", json: bool, wide: bool) -> "dict[str, Benched]":
    """Run the benches in this process; the figures of successful ones, by task."""
    from harness.jobs.loop import Stop, run_task

    store.add(*tasks)
    found = {}
    for task in tasks:
        if not json and task.timing:
            turns = len(task.timing.variants)
            say = f"{task.cell.workload.name}, batches of {task.timing.batch_size}: {turns} take turns"
            output.say(say)
        run_task(store, task.key, Stop())
        result = store.result(task.key)
        if result is None or not result.done:
            output.complain(StoreError(f"{task.label} failed: {result and result.message}"))
            continue
        found[task.key] = result.bench.bench
        if not json:
            show(task.key, found[task.key], wide)
    return found


def _send(
    tasks: "list[Task]",
    store: "Store",
    backend: str,
    profile: Path | None,
    timeout: float | None,
    json: bool,
) -> "dict[str, Benched]":
    """Submit the benches to a backend, one at a time if it has slots, and wait for them."""
    from harness.cli.options import settings_for
    from harness.cli.sweeps import follow
    from harness.enqueue import enqueue
    from harness.plan.plan import Plan
    from harness.plan.sweep_file import Sweep
    from harness.spec import key_of
    from harness.store import Store

    how = settings_for(backend, profile, slots=1, timeout=timeout)
    name = f"bench-{key_of([task.key for task in tasks])[:8]}"
    plan = Plan(Sweep(name, 0, 0, (), ()), (), tuple(tasks), frozenset(), {})
    opened = Store.open(store.path, create=True)
    enqueue(plan, opened, backend, how)
    progress = follow(opened, name, backend, "stop", output.err if json else output.out)
    for failed in progress.failures:
        output.complain(StoreError(f"bench {failed.key[:12]} failed: {failed.reason}: {failed.message}"))
    results = [(task.key, opened.result(task.key)) for task in tasks]
    return {key: each.bench.bench for key, each in results if each is not None and each.done}


def show(key: str, found: "Benched", wide: bool = False) -> None:
    """The figures of one bench, and whether they are trustworthy."""
    threads = f"{found.threads} thread{'s' * (found.threads > 1)}"
    title = (
        f"{found.workload}, {found.parameters:,} parameters, batches of {found.batch_size}, {found.device}, "
        f"{threads}"
    )
    baseline = next(each.method for each in found.methods if each.role == "yardstick")
    others = [each for each in found.methods if each.role == "method" and each.method == baseline]
    rows = [_row(each, baseline, others, wide) for each in found.methods]
    output.print_table(rows, title, BENCHED, wide, "--wide shows all")
    for each in found.methods:
        if each.status == "failed":
            output.say(f"{each.variant} failed: {each.reason}: {each.message}")
    time = "CPU time" if found.clock == "cpu" else "time between events"
    output.say(f"step / {baseline}: {time} of a step without drawing the batch, median and 95 % interval.")
    output.say("extra memory: peak of a step above the level before it; below a few MiB it is noise.")
    for each in others:
        output.say(
            f"{each.variant}: the update of {baseline} by the passes of the gradient engine, without "
            "clipping and noise; a step over it is what privacy costs, however the gradients are computed."
        )
    if any(each.role == "method" and (each.ratio or 1) < 1 for each in found.methods):
        output.say(
            f"below 1: {baseline} pays for autograd and the engine does not; this compares implementations, "
            f"it does not make privacy free{'' if others else ' (see --both-baselines)'}."
        )
    if not found.trustworthy:
        output.say(f"NOT TRUSTWORTHY: {found.reason}")
    output.say(f"recorded as task {key[:12]}")


def _row(each: "Variant", baseline: str, others: "list[Variant]", wide: bool) -> dict[str, Any]:
    from harness.report.units import NUMBER, show_short, show_whole

    return {
        "method": each.variant,
        "engine": each.engine_used,
        f"step / {baseline}": (show_whole if wide else show_short)(each.model_dump(), "ratio", NUMBER),
        **{f"step / {other.variant}": _rounded(_quotient(each.ratio, other.ratio), 1, 3) for other in others},
        "whole step": _rounded(each.ratio_whole_step, 1, 3),
        "CPU ms": _rounded(each.median_cpu_seconds, 1e3, 3),
        "IQR": _rounded(each.iqr_cpu_seconds, 1e3, 3),
        "wall ms": _rounded(each.median_wall_seconds, 1e3, 3),
        "extra MiB": _rounded(each.peak_memory_bytes, 2**-20, 1),
        f"memory / {baseline}": _rounded(each.memory_ratio, 1, 2),
        "steps": each.steps,
    }


def _quotient(above: float | None, below: float | None) -> float | None:
    """The ratio of two medians from their ratios to a third."""
    return None if above is None or not below else above / below


def _rounded(value: float | None, scale: float, digits: int) -> str | None:
    return None if value is None else f"{value * scale:.{digits}f}"
