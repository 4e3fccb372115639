"""The tables of docs/results/reproduction.md, from the results and costs in results/."""

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from harness.papers.published_tables import Published
from harness.report.published.reproduce import count_statuses, tabulate
from harness.report.reading import Row, read_rows
from harness.results.collect import collect
from harness.results.query import open_reader
from harness.results.transfer import import_results
from tests.campaigns.reproduction.costs import LIMIT, Cost, choose, fewest, read_costs, runnable
from tests.campaigns.reproduction.tried import TRIED, trial
from tests.docs.reference import table

ROOT = Path(__file__).resolve().parents[3]
ARCHIVE = ROOT / "results" / "reproduction.zip"
TRIALS = ROOT / "results" / "tried.zip"
"""Other settings than the lines': apart, so that none of them stands for a line."""
COSTS = ROOT / "results" / "costs.json"
PAGE = ROOT / "docs" / "results" / "reproduction.md"
BEGIN = "<!-- tables: python -m tests.campaigns.reproduction page -->"
END = "<!-- end of tables -->"
SHIPPED = "shipped"


def write_page() -> None:
    """Put the tables between the page's marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}", encoding="utf-8", newline="\n")


def restore(path: Path) -> None:
    """Make a new store of the shipped results, as if they had been made in it."""
    with tempfile.TemporaryDirectory() as folder:
        aside = Path(folder) / "store"
        import_results(aside, ARCHIVE, SHIPPED)
        shutil.move(aside / "imports" / SHIPPED, path)


def tables() -> str:
    """The generated part of the page."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        restore(store)
        import_results(store, TRIALS, TRIALS.stem)
        collect(store)
        with open_reader(store) as reader:
            rows = read_rows(reader, "select * from reproduction order by published_key")
            (made,) = read_rows(reader, MADE)
            tried = [(text, read_rows(reader, sql)) for text, sql in TRIED]
    measured = {row["published"] for row in rows if row["ours"] is not None}
    run = [row for row in rows if row["published"] in measured]
    costs = read_costs(COSTS)
    parts = [summary(rows, measured, made)]
    for _, own in groupby(run, key=lambda row: row["table_name"]):
        parts.append(section(list(own)))
    parts += ["## What was tried where we miss", *(trial(text, found) for text, found in tried if found)]
    return "\n\n".join([*parts, *waiting(measured, costs)])


MADE = """
select count(*) as trainings, sum(wall_seconds) / 3600 as hours, min(finished) as first, max(finished) as last
from runs where origin = ''
"""


def summary(rows: Sequence[Row], measured: set[str], made: Row) -> str:
    """How much was run, when, and the verdicts."""
    days = " to ".join(dict.fromkeys(str(made[end])[:10] for end in ("first", "last")))
    head = ("source", "table", "lines run", "of", "within", "outside", "compared", "not measured")
    lines = []
    for name, own in groupby(rows, key=lambda row: row["table_name"]):
        every = list(own)
        done = [row for row in every if row["published"] in measured]
        count = Counter(row["status"] for row in done)
        numbers = (len({row["published"] for row in each}) for each in (done, every))
        verdict = (count[each] for each in head[4:])
        if done:
            first = every[0]
            lines.append((first["source"], f"`{name}`", *map(str, (*numbers, *verdict))))
    cost = f"{made['trainings']} trainings, {made['hours']:.1f} hours on one core, {days}"
    return f"{cost}. {count_statuses(rows)}\n\n{table(head, lines)}"


def section(rows: Sequence[Row]) -> str:
    """One published table: its lines that were run, and what differs."""
    found = tabulate(rows)
    wanted = [found.columns.index(name) for name in found.columns if name != "remarks"]
    lines = []
    for row, line in zip(rows, found.rows, strict=True):
        number = str(int(row["published"].rpartition("/")[2]))
        lines.append((number, *(line[each] for each in wanted), line[-1]))
    head = ("line", *(found.columns[each] for each in wanted), "differs")
    remarks = [f"{number}. {text}" for number, text in enumerate(found.remarks, 1)]
    protocol = [f"- {text}" for text in found.protocol]
    title = f"### {rows[0]['citation']}: {rows[0]['printed']}"
    about = f"`{rows[0]['table_name']}`: {rows[0]['about']}."
    return "\n\n".join([title, about, table(head, lines), "\n".join(remarks), "\n".join(protocol)])


def waiting(run: set[str], costs: dict[str, Cost]) -> Iterable[str]:
    """The lines without a result: what they would cost, or why they cannot be run."""
    able = [line for line in runnable() if line.key not in run]
    kinds: dict[str, list[Published]] = {kind: [] for kind in TITLES}
    for line in able:
        cost = costs.get(line.key)
        if cost is None or cost.seconds is None:
            kinds["unknown"].append(line)
        else:
            kinds["cheap" if choose(line, cost) else "expensive"].append(line)
    yield "## Not run"
    for kind, title in TITLES.items():
        found = kinds[kind]
        if not found:
            continue
        if kind in ("cheap", "expensive"):
            body = table(("table", "lines", "minutes each"), [*by_cost(found, costs)])
        else:
            body = table(("table", "lines", "why"), [*by_reason(found, costs)])
        yield f"{title.format(len(found))}\n\n{body}"


TITLES = {
    "cheap": f"{{}} lines would take at most {LIMIT / 60:.0f} minutes each and wait for their turn:",
    "expensive": "{} lines would take more, with as few models as their figures need:",
    "unknown": "{} lines could not be run, or their cost is not known:",
}


def by_cost(lines: Sequence[Published], costs: dict[str, Cost]) -> Iterable[tuple[str, ...]]:
    """A row per table and cost."""
    rows: dict[tuple[str, int], list[int]] = {}
    for line in lines:
        cost = costs[line.key]
        chosen = choose(line, cost)
        seconds = chosen.seconds if chosen else fewest(line, cost)
        rows.setdefault((line.table.name, math.ceil(seconds / 60)), []).append(line.number)
    for (name, minutes), numbers in sorted(rows.items()):
        yield f"`{name}`", ranges(numbers), f"{minutes:,}"


def by_reason(lines: Sequence[Published], costs: dict[str, Cost]) -> Iterable[tuple[str, ...]]:
    """A row per table and reason."""
    rows: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        cost = costs.get(line.key)
        why = "not estimated yet" if cost is None else str(cost.reason)
        rows.setdefault((line.table.name, why), []).append(line.number)
    for (name, why), numbers in sorted(rows.items()):
        yield f"`{name}`", ranges(numbers), why


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as `--lines` takes them."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
