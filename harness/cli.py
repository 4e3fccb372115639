"""The command line: parse, delegate, print. Heavy modules load inside the commands that need them."""

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness import cli_exchange, cli_purge, cli_sweeps, console
from harness.cli_data import data_app
from harness.cli_image import image_app
from harness.cli_options import (
    DatabaseOption,
    JsonOption,
    SlotsOption,
    StoreOption,
    WhereOption,
    database_url,
    report_folder,
    source,
    store_path,
)
from harness.cli_price import price_app
from harness.cli_serve import serve
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
app.add_typer(data_app, name="data")
app.add_typer(image_app, name="image")
app.add_typer(price_app, name="price")
app.command()(serve)

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
"""The disk is full, read-only or somebody else's: for the user to mend, and no mistake of the program."""

Kind = Literal["methods", "workloads", "attacks", "sweeps"]


def main() -> None:
    """Run the command line; errors of ours go to standard error with exit code 2."""
    try:
        app()
    except BenchError as error:
        console.complain(error)
        sys.exit(2)
    except BrokenPipeError:  # `privbench ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        console.complain(StoreError(f"cannot write ({error}): make room or give another --store"))
        sys.exit(2)


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
    from harness.backends.base import Settings

    cli_sweeps.run_sweep("quickstart", store, (), Settings(slots))
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


for command in (
    cli_sweeps.plan,
    cli_sweeps.enqueue,
    cli_sweeps.run,
    cli_sweeps.status,
    cli_sweeps.logs,
    cli_sweeps.retry,
    cli_sweeps.cancel,
    cli_exchange.export,
    cli_purge.purge,
):
    app.command()(command)
app.command("import")(cli_exchange.import_)


@app.command()
def collect(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Start from nothing.")] = False,
    store: StoreOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Bring the results of the store into its database, or into another one. Idempotent."""
    from harness.collect import collect as gather

    console.collected(gather(store_path(store), database_url(database), rebuild), json)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help='For example "select * from frontier".')],
    format: Annotated[Literal["table", "csv", "json", "parquet"], typer.Option("--format")] = "table",
    out: Annotated[Path | None, typer.Option("--out", help="A file instead of the terminal.")] = None,
    store: StoreOption = None,
    database: DatabaseOption = None,
) -> None:
    """Ask the database; read-only. Views: frontier, overhead, failures; `steps` has every step."""
    from harness.answer import render
    from harness.query import query as ask

    if format == "parquet" and out is None:
        raise SpecError("--format parquet needs --out FILE")
    typer.echo(render(ask(source(store, database), sql), format, out), nl=False)


@app.command()
def report(
    kind: Annotated[
        Literal[
            "frontier",
            "overhead",
            "calibration",
            "audit",
            "reconstructions",
            "reproduce",
            "pd-sgd-theory",
            "all",
        ],
        typer.Argument(help="Which report."),
    ] = "all",
    where: WhereOption = None,
    table: Annotated[
        str | None, typer.Option("--table", help="reproduce: a published table; else an overview of them.")
    ] = None,
    form: Annotated[
        Literal["table", "md", "latex", "csv"] | None,
        typer.Option("--format", help="reproduce: what to print (table)."),
    ] = None,
    columns: Annotated[
        Literal["1", "2"] | None,
        typer.Option("--columns", help="Figures for one (3.3 in) or both columns (7 in) of a paper."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder; else reports/ in the store.")] = None,
    store: StoreOption = None,
    database: DatabaseOption = None,
) -> None:
    """Write frontier, overhead, calibration and audit, and one self-contained page: `all`.

    Figures are PNG, SVG and PDF, tables Markdown, LaTeX and CSV; each carries its query, date and version.
    `calibration` compares methods at equal measured leakage; `audit` shows what canaries prove about epsilon.
    `reconstructions` shows members beside what gradient inversion rebuilt of them.
    `reproduce` puts published numbers beside ours, as text. `pd-sgd-theory` draws what pd-sgd's privacy test
    lets pass; it needs no store.
    """
    if kind == "reproduce":
        from harness.cli_reproduce import reproduce

        if columns:
            raise SpecError("--columns sizes figures, and `report reproduce` draws none: leave it out")
        folder = report_folder(out, store, database)
        return reproduce(source(store, database), table, where, folder, form or "table")
    if table or form:
        raise SpecError(f"--table and --format belong to `report reproduce`, not to `report {kind}`")
    if database and kind in ("pd-sgd-theory", "reconstructions"):
        raise SpecError(f"`report {kind}` reads the store's own files: leave --database out")
    if kind == "pd-sgd-theory":
        from harness.cli_theory import pd_sgd_theory

        return pd_sgd_theory(store_path(store), where, out, columns)
    from harness import report as reports
    from harness.report.sheets import SHEETS

    write = {
        "frontier": reports.write_frontier,
        "overhead": reports.write_overhead,
        "calibration": reports.write_calibration,
        "audit": reports.write_audit,
        "reconstructions": reports.write_reconstructions,
        "all": reports.write_all,
    }
    asked, folder = source(store, database), report_folder(out, store, database)
    for file in write[kind](asked, folder, where, SHEETS[columns]):
        console.say(str(file))
    return None


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


@app.command()
def doctor(
    profile: Annotated[
        Path | None, typer.Option("--profile", help="Check a SLURM profile against the cluster instead.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Tell what this machine has, and what is missing for what."""
    from harness.doctor import examine, examine_profile

    rows = examine(store_path(store)) if profile is None else examine_profile(profile)
    console.listing(rows, json)
    if profile is not None and any(row["state"] == "missing" for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    main()
