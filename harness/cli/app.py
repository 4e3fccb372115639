"""The command line: parse, delegate, print. Heavy modules load inside the commands that need them."""

import errno
import os
import sys
from typing import Annotated

import typer

from harness.cli import bench, catalogue, doctor, output, report, results, serve, sweeps
from harness.cli.data import data_app
from harness.cli.image import image_app
from harness.cli.price import price_app
from workloads.errors import BenchError, StoreError

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
app.command()(serve.serve)
app.command()(sweeps.quickstart)
app.command("list")(catalogue.list_)
app.command()(catalogue.show)
for command in (
    sweeps.plan,
    sweeps.enqueue,
    sweeps.run,
    sweeps.status,
    sweeps.logs,
    sweeps.retry,
    sweeps.cancel,
    results.export,
    results.purge,
):
    app.command()(command)
app.command("import")(results.import_)
app.command()(results.collect)
app.command()(results.query)
app.command()(report.report)
app.command()(bench.bench)
app.command()(doctor.doctor)

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
"""The disk is full, read-only or somebody else's: for the user to mend, and no mistake of the program."""


def main() -> None:
    """Run the command line; errors of ours go to standard error with exit code 2."""
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
        output.complain(StoreError(f"cannot write ({error}): make room or give another --store"))
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
