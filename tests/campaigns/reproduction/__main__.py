"""Run what a machine can of the published tables, cheapest lines first (docs/results/reproduction.md).

    python -m tests.campaigns.reproduction run --store STORE --hours 2
    python -m tests.campaigns.reproduction page

`run` continues in a store: a new one is filled with the results that are shipped in results/. It estimates
what every line costs, runs those that have no result yet and take less than twenty minutes on one slot, packs
all results into results/ and writes the page, which `page` does alone.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from harness.results.collect import collect
from harness.results.query import query
from harness.results.transfer import export_results
from harness.store import Store
from tests.campaigns.reproduction.costs import (
    Chosen,
    choose,
    cost_of,
    once,
    read_costs,
    runnable,
    write_costs,
)
from tests.campaigns.reproduction.page import ARCHIVE, COSTS, restore, write_page


def main() -> int:
    """Exit code 1 if a line failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.reproduction")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("page", help="write the page from results/")
    run = commands.add_parser("run", help="continue the campaign in a store")
    run.add_argument("--store", type=Path, required=True)
    run.add_argument("--hours", type=float, default=1.0, help="no line starts after this time")
    run.add_argument("--slots", type=int, default=1)
    tables = sorted({line.table.name for line in runnable()})
    run.add_argument("--tables", nargs="*", choices=tables, metavar="TABLE", help="of these tables only")
    asked = parser.parse_args()
    failed = 0 if asked.command == "page" else campaign(asked)
    write_page()
    return min(failed, 1)


def campaign(asked: argparse.Namespace) -> int:
    """Run lines until the time is up, and pack the results; the number of lines that failed."""
    end = time.monotonic() + 3600 * asked.hours
    if not asked.store.exists() and ARCHIVE.exists():
        restore(asked.store)
    store = Store.open(asked.store, create=True)
    failed, ran = 0, False
    for chosen in waiting(store, asked.tables):
        if time.monotonic() > end:
            break
        print(f"{chosen.line.key}, about {chosen.seconds / 60:.1f} minutes", flush=True)  # noqa: T201
        failed += run(chosen, store, asked.slots) != 0
        ran = True
    if ran:
        export_results(store.path, ARCHIVE, steps=False)
    return failed


def waiting(store: Store, tables: list[str] | None) -> list[Chosen]:
    """The lines that are to be run and have no result, cheapest first."""
    collect(store.path)
    sql = "select distinct published from reproduction where ours is not null"
    done = {key for (key,) in query(store.path, sql).rows}
    costs, find, chosen = read_costs(COSTS), once(), []
    for line in runnable():
        if tables and line.table.name not in tables:
            continue
        if line.key not in costs:
            costs[line.key] = cost_of(line, store, find)
            write_costs(COSTS, costs)
        one = choose(line, costs[line.key])
        if one is not None and line.key not in done:
            chosen.append(one)
    return sorted(chosen, key=lambda each: each.seconds)


def run(chosen: Chosen, store: Store, slots: int) -> int:
    """The exit code of `privbench run` for a line."""
    words = ["run", "--published", chosen.line.table.name, "--lines", str(chosen.line.number)]
    words += [] if chosen.models is None else ["--models", str(chosen.models)]
    words += ["--slots", str(slots), "--store", str(store.path)]
    command = [sys.executable, "-P", "-m", "harness.cli", *words]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
