"""Command lines: SQL, conditions, and every command that submits nothing."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from harness.cli.app import main
from harness.report.conditions import select
from harness.report.reading import rows_of
from harness.results.query import query
from tests.campaigns.fuzz.ground import Ground
from tests.campaigns.fuzz.inputs import names, nested, numbers
from tests.campaigns.fuzz.store_targets import TRAINING, fill
from tests.campaigns.fuzz.target import Target
from workloads.errors import SpecError

COLUMNS = ("cell", "method", "accuracy", "auc", "epsilon", "params", "on_front", "label", "task", "*", "1")
TABLES = (
    "frontier",
    "overhead",
    "failures",
    "audit",
    "task",
    "cell",
    "steps",
    "model_run",
    "nowhere",
    "memory",
)
READERS = (
    "read_csv",
    "read_text",
    "read_blob",
    "read_parquet",
    "read_json",
    "glob",
    "sniff_csv",
    "query",
    "range",
    "unnest",
    "enable_logging",
    "duckdb_settings",
)
STATEMENTS = (
    "copy {table} to '/tmp/privbench-fuzz.csv'",
    "copy (select {column} from {table}) to '../bystander.json'",
    "attach '/tmp/privbench-fuzz.db' as other",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "pragma enable_profiling",
    "export database '/tmp/privbench-fuzz'",
    "explain analyze {statement}",
    "explain {statement}",
    "describe {statement}",
    "summarize {statement}",
    "with x as ({statement}) select * from x",
    "select * from ({statement})",
    "select {column} from {table} where {column} = {value}",
    "select {column}, getenv('HOME') from {table}",
    "select {column} from {reader}('/etc/passwd')",
    "select {column} from {reader}({value})",
    "select {column} from 'https://example.org/{name}.csv'",
    "insert into {table} select * from {table}",
    "delete from {table} returning {column}",
    "{statement}; {statement}",
    "{statement} union all {statement}",
    "select ({statement})",
    "pivot {table} on {column}",
    "create temp table x as {statement}",
    "call {reader}({value})",
    "{name}",
    "select '{name}'",
    'select "{name}" from {table}',
)
TRAPS = (
    "select " + nested("(", ")", 400) + "1",
    "select " + "1 + " * 900 + "1",
    "select " + "not " * 900 + "true",
    "select " + nested("(select ", ")", 300),
    "select '\udcff'",
    "select 1\x00",
    "\ufeffselect 1",
    "with recursive x as (select 1 as a union all select a + 1 from x where a < 50) select * from x",
)


@st.composite
def statements(draw: st.DrawFn, depth: int = 2) -> str:
    """Statements of every kind, nested."""
    form = draw(st.sampled_from(STATEMENTS))
    parts: dict[str, Any] = {
        "table": st.sampled_from(TABLES),
        "column": st.sampled_from(COLUMNS),
        "reader": st.sampled_from(READERS),
        "value": numbers.map(repr) | names.map(repr),
        "name": names,
        "statement": statements(depth - 1) if depth else st.just("select 1"),
    }
    for name, values in parts.items():
        while f"{{{name}}}" in form:
            form = form.replace(f"{{{name}}}", draw(values).replace("{", "("), 1)
    return form


def asked(ground: Ground, sql: str) -> str:
    """`privbench query SQL`."""
    return ground.survives(lambda: query(ground.store.path, sql))


def filtered(ground: Ground, where: str) -> str:
    """`privbench report --where CONDITION`."""
    return ground.survives(lambda: rows_of(ground.store.path, select("frontier", where)))


def commanded(ground: Ground, words: Sequence[str]) -> str:
    """A command line, in this process. Exit code 2 is refused; 0, and 1 for what is missing, are done."""

    def run() -> None:
        heard = io.StringIO()
        try:
            with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
                main()
        except SystemExit as end:
            if end.code == 2:
                raise SpecError(heard.getvalue()) from end
            if end.code not in (0, 1):
                raise

    environment = {"PRIVBENCH_STORE": str(ground.store.path)}
    with patch.object(sys, "argv", ["privbench", *words]), patch.dict(os.environ, environment):
        return ground.survives(run)


def started(ground: Ground, words: Sequence[str]) -> str:
    """The same in a new process, as a shell starts it."""
    passable = [word.replace("\0", "").encode("utf-8", "replace").decode() for word in words]
    environment = {**os.environ, "PRIVBENCH_STORE": str(ground.store.path)}

    def run() -> None:
        command = [sys.executable, "-m", "harness.cli", *passable]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
            raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
        if done.returncode == 2:
            raise SpecError(done.stderr or done.stdout)

    return ground.survives(run, fenced=False)


conditions = st.builds(
    "{} {} {}".format,
    st.sampled_from(COLUMNS) | names,
    st.sampled_from(("=", "<", "in", "like", ") or (", "--", ";", "is", "and not")),
    names | numbers.map(repr) | statements(1).map("({})".format),
)
words = st.one_of(names, numbers.map(str), statements(1), st.just(TRAINING[1]["key"][:6]), st.just("fuzz"))
lines = st.one_of(
    st.tuples(st.sampled_from(("status", "logs", "cancel", "query")), words),
    st.tuples(st.just("query"), words, st.just("--format"), st.sampled_from(("csv", "json", "table", "x"))),
    st.tuples(st.sampled_from(("plan --no-probe", "show method", "show sweep", "data verify")), words),
    st.tuples(st.just("plan --no-probe --workload"), words, st.just("--method"), words),
    st.tuples(st.just("report frontier --where"), words),
    st.tuples(st.just("report reproduce --table"), words),
    st.lists(words, max_size=3),
).map(lambda line: [*line[0].split(" "), *line[1:]] if line and len(line) > 1 else list(line))

TARGETS = (
    Target(
        "sql", statements() | statements() | st.sampled_from(TRAPS), asked, "select 1", weight=2, fill=fill
    ),
    Target("conditions", conditions, filtered, "auc > 0.5", weight=1, fill=fill),
    Target("commands", lines, commanded, ["status"], weight=1, fill=fill),
    Target("processes", lines, started, ["status"], weight=0.15, fill=fill),
)
