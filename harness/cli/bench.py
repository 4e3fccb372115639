"""`privbench bench`: time the steps of methods against plain sgd."""

from typing import Annotated

import typer

from harness.cli import output
from harness.cli.options import JsonOption, StoreOption, store_path
from workloads.errors import SpecError, StoreError


def bench(
    workload: Annotated[str, typer.Option("--workload", help="Workloads, separated by commas.")],
    method: Annotated[
        str, typer.Option("--method", help="Methods, separated by commas; sgd is always timed.")
    ],
    batch_size: Annotated[
        str | None, typer.Option("--batch-size", help="Batch sizes, as 64,512; else that of the recipe.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Engines of the methods that have them, separated by commas."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE[,VALUE...] for the methods that have this parameter."),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="Target epsilon of methods that need one (8).")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Timed steps of each method at most.")] = 300,
    seconds: Annotated[
        float, typer.Option("--seconds", help="After which 50 timed steps of each method are enough.")
    ] = 20.0,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu or cuda; else the GPU, else cpu.")
    ] = None,
    threads: Annotated[int, typer.Option("--threads", help="Threads of torch.")] = 1,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Time the steps of methods against plain sgd, interleaved in this process; time, memory, ratios.

    Ratios are of CPU time (on a GPU: time between events) without drawing the batch. Sgd is timed twice;
    where the two differ too much the machine is too noisy to trust, and the output says so.
    """
    from harness.jobs.bench import Measure, failed, plan_benches, run_bench
    from harness.plan.sweep_file import from_options
    from harness.results.collect import collect as gather
    from harness.store import Store
    from workloads.devices import best_device

    given = {"batch_size": batch_size, "engine": engine}
    asked = [*(settings or []), *(f"{name}={value}" for name, value in given.items() if value is not None)]
    names = [each.partition("=")[0] for each in asked] + ["epsilon"] * (epsilon is not None)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError([f"{name} is given twice: give it once" for name in twice])
    grid = from_options(workload, method, epsilon, None, None, asked)["grid"][0]
    opened = Store(store_path(store))
    opened.check()
    tasks = plan_benches(grid, Measure(device or best_device().type, threads, steps, seconds))
    opened = Store.open(opened.path, create=True)
    documents = []
    for task in tasks:
        if not json:
            output.say(
                f"{task.yardstick.workload.name}, batches of {task.batch_size}: {len(task.cells)} take turns"
            )
        documents.append(run_bench(task, opened))
        if not json:
            output.bench(documents[-1])
    if json:
        output.json_out(documents)
    try:
        gather(opened.path)
    except StoreError as error:  # the database is in use; the figures are in the store
        output.complain(error)
    if failed(documents):
        raise typer.Exit(1)
