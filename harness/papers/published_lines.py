"""Lines of published tables as cells of ours: which can be one, and why the others cannot.

Names are looked up in the manifest (harness/members/), so that no member loads.
"""

from collections.abc import Sequence
from typing import Any

from harness.members.facts import Declaring
from harness.members.manifest import find_facts, workload_facts
from harness.members.sizes import find_absence
from harness.papers.published_tables import PrintedTable, Published, papers, published
from workloads.errors import SpecError, UnknownName

FORM = "numbers, ranges or ids, separated by commas: 0-3,7,TABLE/012"


def find_table(name: str) -> PrintedTable:
    """The table of this name; UnknownName if there is none."""
    tables = {table.name: table for paper in papers() for table in paper.table}
    if name not in tables:
        raise UnknownName("published table", name, tables)
    return tables[name]


def lines_of(table: str) -> list[Published]:
    """The lines of a table, in printed order."""
    return [line for line in published() if line.table.name == table]


def choose_lines(table: str, chosen: str | None) -> list[Published]:
    """The lines of a table that a text such as `0-3,7` names, each once; all without a text."""
    lines = lines_of(table)
    if chosen is None:
        return lines
    numbers = dict.fromkeys(number for part in chosen.split(",") for number in _numbers(table, part.strip()))
    if strange := [number for number in numbers if number >= len(lines)]:
        last = len(lines) - 1
        raise SpecError(
            f"--lines {chosen}: {table} has lines 0 to {last}, not {strange[0]}: "
            f"`privbench show published {table}` lists them",
            field="--lines",
            value=chosen,
            allowed=(0, last),
        )
    return [lines[number] for number in numbers]


def _numbers(table: str, part: str) -> Sequence[int]:
    """The line numbers of one part: a number, a range with both ends, or an id."""
    first, dash, last = part.removeprefix(f"{table}/").partition("-")
    ends = (first, last) if dash else (first, first)
    if not all(end.isascii() and end.isdecimal() for end in ends) or int(ends[0]) > int(ends[1]):
        raise SpecError(
            f"--lines: {part!r} is no line of {table}: give {FORM}", field="--lines", value=part, allowed=FORM
        )
    begin, end = map(int, ends)
    return range(begin, min(end, max(begin, len(lines_of(table)))) + 1)  # one beyond stays, to be refused


def find_obstacle(line: Published) -> str | None:
    """Why no cell of ours can be this line; None if one can."""
    if line.cell.unmatchable is not None:
        return line.cell.unmatchable
    workload, method = find_facts("workload", line.cell.workload), find_facts("method", line.cell.method)
    if workload is None:
        return f"no workload {line.cell.workload} here"
    if not isinstance(method, Declaring):
        return f"no method {line.cell.method} here"
    strange = [name for name in line.cell.params if name not in method.names]
    if strange:
        return f"{line.cell.method} has no {' and no '.join(strange)} here"
    return None


def defaults_of(line: Published) -> dict[str, Any]:
    """The defaults of the parameters of a line's method; empty if it is not here."""
    facts = find_facts("method", line.cell.method)
    return {each.name: each.default for each in facts.parameters} if isinstance(facts, Declaring) else {}


def members_of(line: Published) -> int:
    """Members per model of a cell that is this line: the paper's number, or the workload's own if it states
    none. Only of a line without an obstacle."""
    return line.n_train or workload_facts(str(line.cell.workload)).n_train


def has_data(line: Published) -> bool:
    """Whether the data set of a line is on this machine. Only of a line without an obstacle."""
    dataset = workload_facts(str(line.cell.workload)).dataset
    return dataset is None or find_absence(dataset) is None
