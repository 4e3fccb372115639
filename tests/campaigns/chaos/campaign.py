"""Shared parts of the campaigns: a small sweep, forked processes with torch loaded, and the expected rows.

A campaign is a module that runs from the checkout, seeded and bounded, and prints what it did:

    python -m tests.campaigns.chaos.kills --seed 0 --kills 500

Its exit code is 0 if nothing was broken, else 1.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import methods
import workloads
from harness import attacks, backends
from harness.backends.base import read_settings
from harness.enqueue import enqueue
from harness.jobs.loop import Stop, run_task
from harness.plan.plan import Plan, make_plan
from harness.plan.sweep_file import read_sweep
from harness.results.collect import collect
from harness.spec import Json
from harness.store import Store
from tests.harness.conftest import install
from workloads.errors import StoreError

LAB = """
name = "chaos"
models = 3
attacks = ["loss", "reference"]
[[grid]]
workload = "lab-data"
method = "trial"
steps = 5
at = [1, 2]
"""
"""Two cells of the lab's method, which has every kind of state: tasks of a tenth of a second."""

DIGITS = """
name = "digits"
models = 2
attacks = ["loss"]
[[grid]]
workload = "digits-linear"
method = "dp-sgd"
epsilon = 8
steps = 6
"""
"""A cell as in the quickstart: embedded data, calibrated noise, a price."""

OURS_ALONE = ("privbench_schema", "published", "published_match", "sweep", "sweep_task")
"""Tables that come not from tasks: of the program, and of what was enqueued when."""
PASSING = re.compile(
    r".*(seconds|bytes).*|started|finished|host|provenance|checksum|stamp|steps_file|data_fingerprint"
)
"""Columns that depend on time or place: two correct runs differ in them."""
LONGEST = ("model_run", "phase")
"""Which of two phases took longer varies between runs, too."""

Rows = dict[str, list[str]]


def plan_of(text: str, store: Path) -> Plan:
    """The plan of a sweep for a store that may not exist yet."""
    return make_plan(*read_sweep(tomllib.loads(text), "chaos"), Store(store))


def send(text: str, path: Path, backend: str = "local", **settings: Any) -> Plan:
    """Plan and enqueue as `privbench enqueue` does."""
    plan = plan_of(text, path)
    how = read_settings({"slots": 1} | settings, backends.family.get(backend).Profile)
    enqueue(plan, Store.open(path, create=True), backend, how)
    return plan


def count_open(text: str, path: Path) -> int:
    """The number of open tasks of a sweep."""
    return len(plan_of(text, path).todo)


def work(text: str, path: Path) -> None:
    """Run the open tasks of an enqueued sweep one after another, as a worker does."""
    store = Store.open(path)
    for task in plan_of(text, path).todo:
        if not (store.folder(task.key) / "spec.json").exists():
            continue
        if store.result(task.key) is not None:
            store.reset(task.key)
        run_task(store, task.key, Stop())


def finish(text: str, path: Path) -> Rows:
    """Enqueue a sweep again, run what is open, collect; return all rows."""
    send(text, path)
    work(text, path)
    return collected(path)


def collected(path: Path) -> Rows:
    """All rows of a store that must be equal in two runs, table by table, after a collection.

    Besides the database: the values observed by steps, and the hashes of everything a task released.
    """
    try:
        collect(path)
    except StoreError as error:
        if "collect --rebuild" not in str(error):
            raise
        collect(path, rebuild=True)  # as it asks for
    store, rows = Store.open(path), {}
    with duckdb.connect(str(store.database), read_only=True) as connection:
        tables = [name for (name,) in connection.execute("show tables").fetchall()]
        views = {name for (name,) in connection.execute("select view_name from duckdb_views").fetchall()}
        for table in sorted(set(tables) - views - set(OURS_ALONE)):
            found = connection.execute(f'select * from "{table}"')
            names = [column[0] for column in found.description]
            kept = [
                place
                for place, name in enumerate(names)
                if not PASSING.fullmatch(name) and (table, name) != LONGEST
            ]
            rows[table] = sorted(repr([row[place] for place in kept]) for row in found.fetchall())
    rows["released"] = sorted(_released(store))
    return rows


def _released(store: Store) -> Iterator[str]:
    for _, result in store.results():
        if not result.done:
            continue
        hashes = {name: each.sha256 for name, each in result.artefacts.items() if name != "steps"}
        yield repr((result.key, result.figures.get("metrics"), result.figures.get("stats"), hashes))
        if "steps" in result.artefacts:
            content = pa.BufferReader(store.read_artefact(result, "steps"))
            table = pq.read_table(content, use_threads=False)
            seen = [name for name in table.column_names if not re.search("seconds|^clock_", name)]
            yield repr((result.key, table.select(seen).to_pylist()))


def faults(found: Rows, expected: Rows, whole: bool = True) -> Counter[str]:
    """The number of rows that are lost, duplicated or different; with `whole` False none counts as lost.

    Comparisons and fronts depend on all present models, so they are ignored in an incomplete store.
    """
    count: Counter[str] = Counter()
    tables = expected.keys() | found.keys()
    for table in tables if whole else tables - {"comparison_result", "front_result"}:
        here, there = Counter(found.get(table, [])), Counter(expected.get(table, []))
        count["doubled"] += sum((Counter({row: n for row, n in here.items() if n > there[row] > 0})).values())
        count["different"] += sum(row not in there for row in here)
        if whole:
            count["lost"] += sum((there - here).values())
    return +count


class Fork:
    """A job in a forked copy of this process, which has torch loaded."""

    def __init__(self, job: Callable[..., Any], *arguments: Any) -> None:
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _answer(writing, job, *arguments)
        os.close(writing)
        self.reading = reading

    def result(self) -> Any:
        """The return value of its job, once it has ended."""
        with os.fdopen(self.reading) as answers:
            text = answers.read()
        _, status = os.waitpid(self.pid, 0)
        if status:
            raise RuntimeError(f"a forked process ended with {os.waitstatus_to_exitcode(status)}")
        return json.loads(text)


def _answer(writing: int, job: Callable[..., Any], *arguments: Any) -> NoReturn:
    code = 1
    try:
        text = json.dumps(job(*arguments), default=str)
        with os.fdopen(writing, "w") as out:
            out.write(text)
        code = 0
    except BaseException:  # noqa: BLE001 - the parent tells that the child failed
        traceback.print_exc()
    finally:
        os._exit(code)


def forked(job: Callable[..., Any], *arguments: Any) -> Any:
    """The return value of a function run in a forked copy of this process; as text what JSON cannot hold."""
    return Fork(job, *arguments).result()


@contextmanager
def ground() -> Iterator[Path]:
    """A new folder for stores; the lab's plug-ins are found by this process and all that it starts."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = Path(tempfile.mkdtemp(prefix="privbench-chaos-"))
    plugins = folder / "plugins"
    plugins.mkdir()
    sys.path.insert(0, str(install(plugins)))
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(plugins), before]))
    os.environ["OMP_NUM_THREADS"] = "1"
    families = (methods.family, workloads.family, attacks.family)
    for family in families:
        vars(family).pop("members", None)  # searched again, with the lab's plug-ins
        family.names()  # once, before forking
    try:
        yield folder
    finally:
        for family in families:
            vars(family).pop("members", None)
        os.environ["PYTHONPATH"] = before
        sys.path.remove(str(plugins))
        shutil.rmtree(folder, ignore_errors=True)


def arguments(about: str | None, words: list[str] | None, **given: int) -> argparse.Namespace:
    """The seed and the campaign's numbers and switches, from the command line or from `words`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    for name, value in given.items():
        if isinstance(value, bool):
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args(words)


def say(line: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def close(name: str, begin: float, counts: Json, broken: int) -> int:
    """Print the campaign's name and its counts as one line of JSON; return the exit code."""
    seconds = round(time.monotonic() - begin)
    say(f"campaign {name}: {json.dumps({**counts, 'broken': broken, 'seconds': seconds}, sort_keys=True)}")
    return 1 if broken else 0
