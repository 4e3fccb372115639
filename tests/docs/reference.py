"""Generated pages of the reference: `python -m tests.docs.reference`, or `make docs`.

Commands come from the command line's own help, columns from db/views.toml in the order of the SQL, names of
the Python interface from their docstrings, keys of profiles from the models that check them. Beside the
pages it writes db/tables.sql and the manifest, what our members say about themselves (harness/members/).
"""

import ast
import importlib
import inspect
import json
import re
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic_core import PydanticUndefined
from typer.main import get_command

import db
import privbench
from db import definition
from db.schema import tables_sql
from harness.backends import family
from harness.cli.app import app
from harness.members.manifest import SHIPPED, make_members
from harness.members.own_sources import DECLARING, own_state
from harness.members.sizes import count
from harness.papers.published_lines import find_obstacle, lines_of
from harness.papers.published_tables import papers

ROOT = Path(__file__).resolve().parents[2]
NOTE = "<!-- Written by `make docs` from {}: change it there. -->\n\n"
HIDDEN = ("--install-completion", "--show-completion", "--help")
"""Options that every command has, or that are typer's own."""
EXAMPLE = re.compile(r"Example: (privbench .+?)(?:\s+More: docs/(\S+)\.)?")
"""The end of a command's help."""
NEEDS = {
    "privbench image": "docker",
    "privbench data fetch": "network",
    "privbench data verify": "data",
    "privbench data features": "data",
}
"""Commands whose example no test can run everywhere."""
VIEWS = """
What `privbench query`, `--where` and `privbench.open_store` show. Columns are an interface: they are added,
not renamed or removed. [querying.md](querying.md) has examples, [numbers.md](numbers.md) explains how each
number is computed.
""".strip()
STEPS = """
`query` also has `steps`: every step of every training, straight from the store's Parquet files, with `task`,
`phase`, `step`, `wall_seconds`, `cpu_seconds`, and what the method timed and observed.
""".strip()
TABLES = """
The tables behind the views. They follow the program and are not an interface; `db/models.py` and
`db/findings.py` describe their columns.
""".strip()
API = """
What `import privbench` offers to notebooks, scripts and plug-ins. Names load on first use: the import itself
loads neither torch nor the database. A name leaves only after a release that deprecates it. `help(NAME)` has
the whole contract.
""".strip()
PROFILES = """
`--profile FILE` names a TOML file with a backend's settings. Nothing in it changes a result. All problems of
a file are reported at once; `privbench doctor --profile FILE` checks it without submitting anything.
[slurm.md](slurm.md) and [docker.md](docker.md) show how the keys work together.
""".strip()
SUBJECTS = {
    "Results": ("harness.results", "harness.store"),
    "Audits": ("harness.audit", "harness.report.audit_page"),
    "Accounting": ("harness.accounting",),
    "Workloads": ("workloads.base", "workloads.records", "workloads.models"),
    "Methods": ("methods",),
    "Attacks": ("harness.attacks", "harness.leakage"),
    "Backends": ("harness.backends",),
    "Figures of a method": ("workloads.drawings",),
    "Errors": ("workloads.errors",),
}
"""Sections of docs/api.md, with where the names of each are defined."""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(each.replace("|", "&#124;") for each in line) + " |" for line in lines)


def code(text: str) -> str:
    """Text as code in a Markdown table, with bars escaped."""
    return f"<code>{escape(text)}</code>" if "|" in text else f"`{text}`"


def cli() -> str:
    """docs/cli.md: every command with its usage, arguments and options."""
    root: Any = get_command(app)
    parts = [
        "# Commands",
        f"{root.help}\n\n`--help` after any command prints the same. {root.epilog or ''}".strip(),
    ]
    panels: dict[str, list[str]] = {}
    for name in root.list_commands(context(root, "privbench")):
        panel = root.commands[name].rich_help_panel
        panels.setdefault(panel if isinstance(panel, str) else "", []).append(name)
    for panel, names in panels.items():
        parts += [f"## {panel}"] if panel else []
        for name in names:
            parts += command(root.commands[name], f"privbench {name}", "###" if panel else "##")
    return NOTE.format("the command line's help") + "\n\n".join(parts) + "\n"


def context(command: Any, name: str) -> Any:
    """The context of a command, at a width that wraps nothing."""
    return command.context_class(command, info_name=name, max_content_width=500, terminal_width=500)


def command(each: Any, name: str, level: str) -> Iterator[str]:
    """The section of a command, then those of its subcommands."""
    here = context(each, name)
    yield f"{level} {name}"
    yield f"```text\n{name} {' '.join(each.collect_usage_pieces(here))}\n```"
    if each.help:
        yield inspect.cleandoc(each.help)
    records = [each.get_help_record(here) for each in each.get_params(here)]
    rows = [
        (code(words), " ".join(about.split()))
        for words, about in filter(None, records)
        if not words.startswith(HIDDEN)
    ]
    if rows:
        yield table(("option", "meaning"), rows)
    if each.epilog:
        example = EXAMPLE.fullmatch(each.epilog.strip())
        yield block(example[1]) if example else inspect.cleandoc(each.epilog)
        if example and example[2]:
            yield f"More: [{example[2]}]({example[2]})."
    for word, below in getattr(each, "commands", {}).items():
        shown = word if word in each.list_commands(here) else word.upper()  # it stands for a family of names
        yield from command(below, f"{name} {shown}", level + "#")


def block(example: str) -> str:
    """A command as a block, marked where it needs what not every machine has."""
    need = next((f" needs-{need}" for start, need in NEEDS.items() if example.startswith(start)), "")
    return f"```sh{need}\n{example}\n```"


def views() -> str:
    """docs/views.md: every view with its columns, in the order of the SQL."""
    described = tomllib.loads((ROOT / "db/views.toml").read_text(encoding="utf-8"))
    shared = described.pop("shared")
    columns, found = view_columns(), [*described.items()]
    parts = [
        "# Views",
        VIEWS,
        table(("view", "a row is"), [(f"[`{name}`](#{name})", each["row"]) for name, each in found]),
        STEPS,
    ]
    for name, view in found:
        parts += [f"## {name}", view["about"]]
        if "columns" in view:
            meanings = shared | view["columns"]
            rows = [(f"`{column}`", meanings[column]) for column in columns[name]]
            parts.append(table(("column", "meaning"), rows))
    parts += ["## Tables", TABLES, table(("table", "a row is"), [*tables()])]
    return NOTE.format("db/views.toml") + "\n\n".join(parts) + "\n"


def tables() -> Iterator[tuple[str, str]]:
    """Every table of results, with the first sentence of its model's docstring."""
    models = {str(mapper.local_table): mapper.class_ for mapper in db.Base.registry.mappers}
    for name in sorted(models.keys() - {"privbench_schema"}):
        yield f"`{name}`", first_lines(models[name])


def view_columns() -> dict[str, list[str]]:
    """The columns of every view, from an empty database."""
    with tempfile.TemporaryDirectory() as folder:
        engine = db.open_database(Path(folder) / "empty.duckdb")
        try:
            with engine.connect() as connection:
                return {
                    name: list(connection.execute(sa.text(f"select * from {name}")).keys())
                    for name in db.view_names()
                }
        finally:
            engine.dispose()


def api() -> str:
    """docs/api.md: every name of `privbench` with the first line of its docstring."""
    parts = [
        "# Python interface",
        API,
    ]
    left = set(privbench.__all__)
    for subject, homes in SUBJECTS.items():
        names = [name for name in privbench.__all__ if home(name).startswith(homes)]
        parts += [f"## {subject}", table(("name", "what it is"), [(f"`{n}`", summary(n)) for n in names])]
        left -= {*names}
    if left:
        raise ValueError(f"no section of docs/api.md takes {sorted(left)}: give SUBJECTS their home")
    return NOTE.format("docstrings") + "\n\n".join(parts) + "\n"


def home(name: str) -> str:
    """The module that a name of `privbench` is exported from."""
    return privbench._HOME[name]


def summary(name: str) -> str:
    """The first line of the docstring or note at the definition of a name."""
    found = getattr(privbench, name)
    if inspect.isclass(found) or inspect.isroutine(found):
        line = first_lines(found)
    else:
        line = first_paragraph(note_at(importlib.import_module(home(name)), name))
    if not line:
        raise ValueError(f"privbench.{name} has no docstring for docs/api.md")
    return line


def first_lines(found: Any) -> str:
    """The first paragraph of a docstring."""
    return first_paragraph(inspect.getdoc(found) or "")


def first_paragraph(text: str) -> str:
    """In one line."""
    return " ".join(text.partition("\n\n")[0].split())


def note_at(module: Any, name: str) -> str:
    """The string below the assignment that defines a name, in this module or the one it imports it from."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.ImportFrom) and name in {each.name for each in statement.names}:
            return note_at(importlib.import_module(str(statement.module)), name)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if name in {target.id for target in targets if isinstance(target, ast.Name)}:
            value = below.value if isinstance(below, ast.Expr) else None
            return str(value.value) if isinstance(value, ast.Constant) else ""
    return ""


def profiles() -> str:
    """docs/profiles.md: the keys of every backend's profile."""
    parts = [
        "# Profiles",
        PROFILES,
    ]
    for name in family.names():
        kind = family.get(name).Profile
        if kind is None:
            continue
        rows = [
            (f"`{key}`", default_of(field), str(field.description))
            for key, field in kind.model_fields.items()
        ]
        parts += [f"## {name}", table(("key", "default", "meaning"), rows)]
    return NOTE.format("the models that check profiles") + "\n\n".join(parts) + "\n"


def default_of(field: Any) -> str:
    """A key's default as in a profile; empty if it has none."""
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def reproduce() -> str:
    """docs/reproduce.md with its tables of published tables; the text around them is written by hand."""
    page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    before, begin, rest = page.partition("<!-- tables: make docs -->\n")
    _, end, after = rest.partition("<!-- end of tables -->\n")
    if not (begin and end):
        raise ValueError("docs/reproduce.md has lost the place of its tables")
    return f"{before}{begin}\n{published_tables()}\n\n{end}{after}"


def published_tables() -> str:
    """The tables of `privbench list published`, by source, and the reasons why lines cannot be run."""
    rows, reasons = [], defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
    for paper in papers():
        for each in paper.table:
            lines = lines_of(each.name)
            stuck = {line.number: why for line in lines if (why := find_obstacle(line)) is not None}
            for number, why in stuck.items():
                reasons[why][each.name].append(str(number))
            numbers = sum(len(line.cell.values) for line in lines)
            counts = (str(len(lines)), str(len(lines) - len(stuck)), str(numbers))
            rows.append((paper.source, code(each.name), each.printed, each.about, *counts))
    totals = [sum(int(row[column]) for row in rows) for column in (4, 5, 6)]
    return "\n\n".join(
        [
            f"{len(papers())} sources, {len(rows)} tables, {totals[0]} lines with {totals[2]} numbers; "
            f"{totals[1]} lines can be run.",
            table(("source", "table", "printed as", "about", "lines", "runnable", "numbers"), rows),
            "The others cannot:",
            "\n".join(f"- {_places(of)}: {why}" for why, of in reasons.items()),
        ]
    )


def _places(lines: Mapping[str, Sequence[str]]) -> str:
    """Lines by table."""
    return "; ".join(
        f"line{'s' * (len(numbers) > 1)} {', '.join(numbers)} of {code(name)}"
        for name, numbers in lines.items()
    )


PAGES: dict[str, Callable[[], str]] = {
    "docs/api.md": api,
    "docs/cli.md": cli,
    "docs/profiles.md": profiles,
    "docs/reproduce.md": reproduce,
    "docs/views.md": views,
}


def manifest() -> str:
    """harness/members/manifest.json: the facts of our members, and the numbers of their own records."""
    members = make_members()
    own = [name for name, facts in members["workload"].items() if facts["dataset"] is None]
    sizes = {name: {"version": members["workload"][name]["version"], **count(name)} for name in own}
    content = {"made_from": own_state(*DECLARING), "members": members, "sizes": sizes}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    definition.TABLES.write_text(tables_sql(), encoding="utf-8")
    SHIPPED.write_text(manifest(), encoding="utf-8")
    for page, write in PAGES.items():
        (ROOT / page).write_text(write(), encoding="utf-8")
