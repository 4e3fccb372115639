"""The command line: parse, delegate, print. Heavy modules load inside the commands that need them."""

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from harness.cli import bench, catalogue, doctor, output, report, results, serve, sweeps
from harness.cli.data import data_app
from harness.cli.image import image_app
from harness.cli.price import price_app
from harness.cli.tune import tune
from workloads.errors import BenchError, StoreError
from workloads.threads import bound_threads

app = typer.Typer(
    name="privbench",
    help="At the same measured leakage, which training method gives the best model, and what does it cost?",
    epilog="Begin with `privbench quickstart`. Every listing takes --json. "
    "Exit codes: 0 success, 1 a task failed or an audit raised an alarm, 2 wrong use.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, dict[str, tuple[Callable[..., None] | typer.Typer, str]]] = {
    "Start": {
        "quickstart": (sweeps.quickstart, "quickstart --store first-store"),
        "doctor": (doctor.doctor, "doctor"),
        "list": (catalogue.list_, "list methods"),
        "show": (catalogue.show, "show method dp-sgd"),
        "data": (data_app, ""),
    },
    "Sweeps": {
        "plan": (sweeps.plan, "plan --workload digits-mlp --method sgd --attack rmia:gamma=2,lira --seed 1"),
        "run": (sweeps.run, "run --workload digits-mlp --method sgd,dp-sgd --epsilon 1,8"),
        "tune": (tune, "tune --workload digits-linear --method sgd,dp-sgd --epsilon 8 --trials 4"),
        "enqueue": (sweeps.enqueue, "enqueue sweep.toml"),
        "status": (sweeps.status, "status quickstart --watch"),
        "logs": (sweeps.logs, "logs 3fa94c"),
        "retry": (sweeps.retry, "retry quickstart --timeout 3600"),
        "cancel": (sweeps.cancel, "cancel quickstart"),
    },
    "Results": {
        "collect": (results.collect, "collect --store first-store"),
        "query": (results.query, 'query "select label, epsilon, accuracy, auc from frontier"'),
        "report": (report.report, "report frontier --columns 1 --out figures"),
        "serve": (serve.serve, "serve --port 8080"),
        "export": (results.export, "export results.zip"),
        "import": (results.import_, "import results.zip --as colleague"),
        "forget": (results.forget, "forget 3fa94c --why 'wrong learning rate'"),
        "purge": (results.purge, "purge --artefacts --dry-run"),
    },
    "Tools": {
        "check": (catalogue.check, "check workload digits-linear"),
        "bench": (bench.bench, "bench --workload digits-mlp --method dp-sgd --batch-size 64"),
        "price": (price_app, ""),
        "image": (image_app, ""),
    },
}
"""The panels of `--help` in the order of use: commands with their examples; groups define their own."""

for panel, commands in COMMANDS.items():
    for name, (command, example) in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, epilog=f"Example: privbench {example}", rich_help_panel=panel)(command)

UNWRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
)
"""A full, read-only or forbidden disk, or a path that cannot be: for the user to fix, not a bug."""


def main() -> None:
    """Run the command line; a BenchError goes to standard error, with exit code 2."""
    bound_threads()  # before a command loads numpy or torch
    try:
        app()
    except BenchError as error:
        output.complain(error)
        sys.exit(2)
    except BrokenPipeError:  # `privbench ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        output.complain(StoreError(f"cannot write ({error}): free some space or give another --store"))
        sys.exit(2)


def show_version(asked: bool) -> None:
    """Print the version and exit; no command is needed."""
    if asked:
        from importlib.metadata import version

        typer.echo(version("privbench"))
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=show_version)
    ] = False,
) -> None:
    """Benchmark private training: grids of method x workload x epsilon, attacked, priced and timed."""
