"""The command line: parse, delegate, print. Heavy modules load inside the commands that need them."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from harness import console
from harness.cli_price import price_app
from workloads.errors import BenchError, SpecError, StoreError

app = typer.Typer(
    name="privbench",
    help="At the same measured leakage, which training method gives the best model, and what does it cost?",
    epilog="Begin with `privbench quickstart`. Every listing takes --json. "
    "Exit codes: 0 good, 1 some task failed, 2 wrong use.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="The data sets behind the workloads.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(price_app, name="price")

Kind = Literal["methods", "workloads", "attacks", "sweeps"]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="The store's folder; else $PRIVBENCH_STORE, else ./privbench-store."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
SweepArgument = Annotated[str | None, typer.Argument(help="A sweep file, or the name of a ready-made sweep.")]
WorkloadOption = Annotated[
    str | None, typer.Option("--workload", help="Without a file: workloads, separated by commas.")
]
MethodOption = Annotated[
    str | None, typer.Option("--method", help="Without a file: methods, separated by commas.")
]
EpsilonOption = Annotated[
    str | None, typer.Option("--epsilon", help="Without a file: target epsilons, as 1,4,8.")
]
ModelsOption = Annotated[int | None, typer.Option("--models", help="Models per cell (8).")]
AttackOption = Annotated[
    str | None, typer.Option("--attack", help="Without a file: attacks, separated by commas.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Without a file: NAME=VALUE[,VALUE...] of a method's parameter."),
]
BackendOption = Annotated[str, typer.Option("--backend", help="Where jobs run: local.")]
SlotsOption = Annotated[
    int | None, typer.Option("--slots", min=1, help="Tasks at a time; else one per GPU or core.")
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads per task.")]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", min=1, help="Seconds after which a task is ended.")
]
WhereOption = Annotated[
    str | None, typer.Option("--where", help="An SQL condition on the columns of the view.")
]


def main() -> None:
    """Run the command line; errors of ours go to standard error with exit code 2."""
    try:
        app()
    except BenchError as error:
        console.complain(error)
        sys.exit(2)
    except BrokenPipeError:  # `privbench ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def store_path(given: Path | None) -> Path:
    """--store, else $PRIVBENCH_STORE, else ./privbench-store."""
    return given or Path(os.environ.get("PRIVBENCH_STORE") or "privbench-store")


@app.callback(invoke_without_command=False)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Benchmark private training: grids of method x workload x epsilon, attacked, priced and timed."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(installed("privbench"))
        raise typer.Exit


@app.command()
def quickstart(store: StoreOption = None, slots: SlotsOption = None) -> None:
    """Run the sweep `quickstart` on embedded data and write a report: minutes on two cores."""
    _run("quickstart", store, None, slots=slots)
    from harness.report import write_all
    from harness.store import Store

    opened = Store.open(store_path(store))
    files = write_all(opened.path, opened.reports)
    console.say(f"report: {next(file for file in files if file.suffix == '.html')}")


@app.command("list")
def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")], json: JsonOption = False) -> None:
    """List methods, workloads, attacks or ready-made sweeps."""
    from harness.catalogue import listing

    console.listing(listing(kind), json)


@app.command()
def show(
    kind: Annotated[
        Literal["method", "workload", "attack", "sweep"],
        typer.Argument(help="method, workload, attack or sweep."),
    ],
    name: Annotated[str, typer.Argument(help="Its name.")],
    json: JsonOption = False,
) -> None:
    """Show one member: parameters with defaults and help, guarantee, caveats, source."""
    from harness.catalogue import page

    console.page(page(kind, name), json)


@app.command()
def plan(
    sweep: SweepArgument = None,
    workload: WorkloadOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    models: ModelsOption = None,
    attack: AttackOption = None,
    settings: SetOption = None,
    store: StoreOption = None,
    probe: Annotated[bool, typer.Option(help="Time a few steps where nothing was recorded.")] = True,
    json: JsonOption = False,
) -> None:
    """Show what a sweep would do and cost: cells, tasks, cached tasks, hours, memory. Sends nothing."""
    from harness.estimate import estimate
    from harness.store import Store

    opened = Store(store_path(store))
    opened.check()
    made = _plan(sweep, opened, workload, method, epsilon, models, attack, settings)
    console.plan(made, estimate(made, opened, probing=probe), json)


@app.command()
def enqueue(
    sweep: SweepArgument = None,
    backend: BackendOption = "local",
    slots: SlotsOption = None,
    threads: ThreadsOption = 1,
    timeout: TimeoutOption = None,
    workload: WorkloadOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    models: ModelsOption = None,
    attack: AttackOption = None,
    settings: SetOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Send a sweep's open tasks to a backend and return at once; `status` shows how far they are."""
    asked = (workload, method, epsilon, models, attack, settings)
    opened, made, count = _send(sweep, store, backend, slots, threads, timeout, asked)
    if json:
        console.json_out({"sweep": made.sweep.name, "sent": count, "tasks": len(made.tasks)})
    else:
        console.say(
            f"{count} of {len(made.tasks)} tasks sent to {backend}; {len(made.done)} are done already."
        )
        console.say(f"See `privbench status {made.sweep.name} --store {opened.path}`.")


@app.command()
def run(
    sweep: SweepArgument = None,
    backend: BackendOption = "local",
    slots: SlotsOption = None,
    threads: ThreadsOption = 1,
    timeout: TimeoutOption = None,
    workload: WorkloadOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    models: ModelsOption = None,
    attack: AttackOption = None,
    settings: SetOption = None,
    on_interrupt: Annotated[
        Literal["stop", "detach"],
        typer.Option(help="Ctrl-C: stop the sweep (resumable), or leave it running."),
    ] = "stop",
    store: StoreOption = None,
) -> None:
    """Enqueue a sweep, watch it, collect, and print its frontier. Ctrl-C once stops it cleanly."""
    asked = (workload, method, epsilon, models, attack, settings)
    _run(sweep, store, asked, backend, slots, threads, timeout, on_interrupt)


def _run(
    sweep: str | None,
    store: Path | None,
    asked: tuple[Any, ...] | None,
    backend: str = "local",
    slots: int | None = None,
    threads: int = 1,
    timeout: float | None = None,
    on_interrupt: str = "stop",
) -> None:
    from harness.backends import BACKENDS
    from harness.collect import collect as gather
    from harness.watch import ctrl_c, watch

    opened, made, count = _send(sweep, store, backend, slots, threads, timeout, asked)
    name = made.sweep.name
    console.say(f"{name}: {len(made.cells)} cells, {len(made.tasks)} tasks, {count} to run.")
    with ctrl_c() as interrupted:
        progress = watch(opened, name, console.out, interrupted)
        if interrupted() and on_interrupt == "stop":
            BACKENDS[backend]().stop(opened, name, cancel=False)
            console.say("Stopped: nothing new starts, running tasks save their state. Run again to go on.")
        elif interrupted():
            console.say(f"Detached: the sweep goes on. See `privbench status {name}`.")
    gather(opened.path)
    console.frontier(opened, made.cells)
    console.failures(progress.failures)
    if progress.failures or not progress.over:
        raise typer.Exit(1)


@app.command()
def status(
    sweep: Annotated[str | None, typer.Argument(help="A sweep's name; all where it is left out.")] = None,
    watching: Annotated[bool, typer.Option("--watch", help="Stay and show live progress.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show how far sweeps are, what runs, and what failed."""
    from harness.status import Progress, supervisor_summary
    from harness.store import Store
    from harness.watch import ctrl_c, watch

    opened = Store.open(store_path(store))
    names = [sweep] if sweep else opened.sweep_names()
    if watching and names:
        with ctrl_c() as interrupted:
            for name in names:
                watch(opened, name, console.out, interrupted)
    found = [Progress.of(opened, name) for name in names]
    console.status(supervisor_summary(opened), found, detailed=sweep is not None, json=json)


@app.command()
def logs(
    task: Annotated[str, typer.Argument(help="A task's key, or its first digits.")],
    store: StoreOption = None,
) -> None:
    """Print what a task printed, and its traceback if it failed."""
    from harness.store import Store

    opened = Store.open(store_path(store))
    log = opened.folder(opened.find(task)) / "log.txt"
    typer.echo(log.read_text(errors="replace") if log.exists() else "it has printed nothing yet", nl=False)


@app.command()
def retry(
    sweep: Annotated[str | None, typer.Argument(help="A sweep's name; all where it is left out.")] = None,
    backend: BackendOption = "local",
    slots: SlotsOption = None,
    threads: ThreadsOption = 1,
    timeout: TimeoutOption = None,
    store: StoreOption = None,
) -> None:
    """Run the failed tasks again; the old reasons stay in the tasks' folders."""
    from harness.backends.base import Settings
    from harness.enqueue import resend
    from harness.store import Store

    opened = Store.open(store_path(store))
    for name in [sweep] if sweep else opened.sweep_names():
        count = resend(opened, name, backend, Settings(slots, threads, timeout))
        console.say(f"{name}: {count} tasks sent again.")


@app.command()
def cancel(
    sweep: Annotated[str, typer.Argument(help="A sweep's name.")],
    backend: BackendOption = "local",
    store: StoreOption = None,
) -> None:
    """Stop a sweep; every unfinished task gets a row that says `cancelled`. Enqueue it again to go on."""
    from harness.backends import BACKENDS
    from harness.store import Store

    opened = Store.open(store_path(store))
    opened.sweep(sweep)
    BACKENDS[_known_backend(backend)]().stop(opened, sweep, cancel=True)
    console.say(f"{sweep}: cancelling. See `privbench status {sweep}`.")


@app.command()
def collect(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Start from nothing.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Bring the results of the store into its database. Idempotent."""
    from harness.collect import collect as gather
    from harness.store import Store

    console.collected(gather(Store.open(store_path(store)).path, rebuild=rebuild), json)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help='For example "select * from frontier".')],
    format: Annotated[Literal["table", "csv", "json", "parquet"], typer.Option("--format")] = "table",
    out: Annotated[Path | None, typer.Option("--out", help="The file for parquet.")] = None,
    store: StoreOption = None,
) -> None:
    """Ask the database; read-only. Views: frontier, overhead, failures; `steps` has every step."""
    from harness.query import query as ask
    from harness.query import render
    from harness.store import Store

    if format == "parquet" and out is None:
        raise SpecError("--format parquet needs --out FILE")
    text = render(ask(Store.open(store_path(store)).path, sql), format, out)
    if text:
        typer.echo(text, nl=not text.endswith("\n"))


@app.command()
def report(
    kind: Annotated[Literal["frontier", "overhead", "all"], typer.Argument(help="Which report.")] = "all",
    where: WhereOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder; else reports/ in the store.")] = None,
    store: StoreOption = None,
) -> None:
    """Draw the frontier and the overhead as PNG, SVG and one self-contained page."""
    from harness import report as reports
    from harness.store import Store

    opened = Store.open(store_path(store))
    write = {
        "frontier": reports.write_frontier,
        "overhead": reports.write_overhead,
        "all": reports.write_all,
    }
    for file in write[kind](opened.path, out or opened.reports, where):
        console.say(str(file))


@app.command()
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

    Ratios are of CPU time (on a GPU: the device's time) without drawing the batch. Sgd is timed twice;
    where the two differ too much the machine is too noisy to trust, and the output says so.
    """
    from harness.bench import Measure, failed, plan_benches, run_bench
    from harness.collect import collect as gather
    from harness.store import Store
    from harness.sweep import from_options
    from harness.training import best_device

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
            console.say(
                f"{task.yardstick.workload.name}, batches of {task.batch_size}: {len(task.cells)} take turns"
            )
        documents.append(run_bench(task, opened))
        if not json:
            console.bench(documents[-1])
    if json:
        console.json_out(documents)
    try:
        gather(opened.path)
    except StoreError as error:  # the database is in use; the figures are in the store
        console.complain(error)
    if failed(documents):
        raise typer.Exit(1)


@data_app.command("list")
def data_list(json: JsonOption = False) -> None:
    """What data there is, where it was looked for, its size, licence and citation."""
    from harness.datasets import listing, overview

    rows = listing()
    console.listing(rows if json else overview(rows), json)


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets; `privbench data list` names them.")],
    json: JsonOption = False,
) -> None:
    """Get data sets from their publishers into $PRIVBENCH_DATA, checked; a broken transfer is resumed."""
    from harness.datasets import bars, fetched

    with bars(console.err) as progress:
        rows = fetched(names, progress)
    if json:
        console.json_out(rows)
    failures = [row for row in rows if row["state"] == "failed"]
    for row in rows if not json else []:
        if row not in failures:
            console.say(f"{row['name']}: {row['state']}, {row['detail']}")
    for row in failures:
        console.complain(BenchError(f"{row['name']}: {row['detail']}"))
    if failures:
        raise typer.Exit(1)


@data_app.command("verify")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; else every one that is here.")] = None,
    json: JsonOption = False,
) -> None:
    """Read data sets anew and check them against the published sums and the content we know."""
    from harness.datasets import verified

    rows = verified(names or [])
    console.listing(rows, json)
    if any(row["state"] in ("damaged", "absent") for row in rows):
        raise typer.Exit(1)


@app.command()
def doctor(store: StoreOption = None, json: JsonOption = False) -> None:
    """Tell what this machine has, and what is missing for what."""
    from harness.doctor import examine

    console.listing(examine(store_path(store)), json)


def _plan(sweep: str | None, store: Any, *asked: Any) -> Any:
    from harness.plan import make_plan
    from harness.sweep import find_sweep, from_options, read_sweep

    if sweep is None:
        data, name = from_options(*asked), "ad-hoc"
    else:
        if any(asked):
            raise SpecError("give a sweep, or --workload, --method and so on; not both")
        data, name = find_sweep(sweep)
    return make_plan(*read_sweep(data, name), store)


def _known_backend(backend: str) -> str:
    from harness.backends import BACKENDS
    from workloads.errors import UnknownName

    if backend not in BACKENDS:
        raise UnknownName("backend", backend, BACKENDS)
    return backend


def _send(
    sweep: str | None,
    store: Path | None,
    backend: str,
    slots: int | None,
    threads: int,
    timeout: float | None,
    asked: tuple[Any, ...] | None,
) -> tuple[Any, Any, int]:
    """Plan, and only if the plan is good open the store and send."""
    from harness.backends.base import Settings
    from harness.enqueue import enqueue as send
    from harness.store import Store

    _known_backend(backend)
    opened = Store(store_path(store))
    opened.check()
    made = _plan(sweep, opened, *(asked or ()))
    opened = Store.open(opened.path, create=True)
    return opened, made, send(made, opened, backend, Settings(slots, threads, timeout))


if __name__ == "__main__":
    main()
