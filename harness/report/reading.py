"""The rows behind the reports: the only module of this package that queries the database."""

import json
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from harness.report.conditions import both, narrow, refuse_absent_attack, refuse_nothing, select
from harness.results.query import Reader, Source, is_url, open_reader
from harness.spec import FIRST_VERSION, PROTOCOL
from harness.store import Store
from harness.store.tunes import TuneRecord
from workloads.errors import StoreError, UnknownName

Row = Mapping[str, Any]
"""One row of a view by column name, as plain Python values; null and NaN are None."""


PLAIN, YARDSTICK = "plain-baseline", "yardstick"
"""The role of the baseline method: of a cell, and in a bench."""

CELLS = """
    select c.key as cell, c.workload_version, c.n_train, c.method, c.role, c.canary, c.canaries,
           c.canary_version, max(r.guarantee_kind) as guarantee_kind, max(r.epsilon) as epsilon
    from cell c left join model_run r on r.cell = c.key
    group by c.key, c.workload_version, c.n_train, c.method, c.role, c.canary, c.canaries, c.canary_version
"""
"""Columns of its cell that every row gets, whichever view it comes from."""


RUNS = "select r.*, t.provenance from runs r join task t on t.key = r.task"
"""The training runs behind the points, with their provenance."""

ILLUSTRATED = """
    select c.method, c.workload, c.params, r.stats
    from cell c left join model_run r on r.cell = c.key
    where c.illustrated and c.key not in (select key from forgotten_result)
    order by c.key, r.index
"""
"""Statistics from the training runs of methods with figures of their own; none for a cell without runs."""

CEILINGS = """
    select distinct cell, cast(ceiling_curve as varchar) as curve
    from model_run where ceiling_by is not null order by cell, curve
"""

NO_TRIAL = "cell not in (select cell from trial where cell is not null)"
"""A tune's trials are in the report on tunes only."""

AT_ONCE = 1000
"""ROC curves in one query."""
GALLERIES = 24
"""Attacks whose pictures are read, at most."""

ATTRIBUTES = "workload, attribute, method, epsilon_asked, label, attack, attack_task"
"""The order of attribute inferences."""
AUDITS = "select * from audit order by workload, canary, method, epsilon_asked, label, attack, cell"


@dataclass(frozen=True)
class Roc:
    """A receiver operating characteristic, pooled over the targets of a cell."""

    fpr: Sequence[float]
    tpr: Sequence[float]


@dataclass(frozen=True)
class Pictures:
    """Members and their reconstructions by an attack, each as (n, planes, height, width)."""

    originals: NDArray[np.uint8]
    rebuilt: NDArray[np.uint8]


@dataclass(frozen=True)
class Reading:
    """All rows of a report, read once; every figure is a function of it."""

    frontier: list[Row]
    rocs: Mapping[str, Roc] = field(default_factory=dict)
    """By the key of the attack's task."""
    ceilings: Mapping[str, Roc] = field(default_factory=dict)
    """By cell: the ceiling of its guarantee on the TPR of any attack; of the models that have one."""
    overhead: list[Row] = field(default_factory=list)
    bench: list[Row] = field(default_factory=list)
    """The newest figure of every benched method, including the baseline."""
    audits: list[Row] = field(default_factory=list)
    """Every audit, filtered or not: no condition hides an alarm (docs/rules.md: alarm above the price)."""
    reconstructions: list[Row] = field(default_factory=list)
    """Every gradient inversion on the cells that the condition selects."""
    pictures: Mapping[str, Pictures] = field(default_factory=dict)
    """By the key of the attack's task; of the first attacks, if the store is available and has them."""
    attributes: list[Row] = field(default_factory=list)
    """Every attribute inference on the cells that the condition selects."""
    runs: list[Row] = field(default_factory=list)
    """The training runs of the frontier's cells, by cell and index; with their provenance."""
    illustrated: list[Row] = field(default_factory=list)
    """Parameters and statistics of every training run of a method with figures of its own."""
    reproduction: list[Row] = field(default_factory=list)
    """Every published number next to ours, whatever the condition."""
    standings: list[Row] = field(default_factory=list)
    """Every cell of the private baseline next to the best published line, whatever the condition."""
    forgotten: list[Row] = field(default_factory=list)
    """What `privbench forget` took out of the other rows, whatever the condition."""
    conflicts: list[Row] = field(default_factory=list)
    """Every imported figure that differs from ours of the same task."""
    comparisons: list[Row] = field(default_factory=list)
    """Every paired difference, whatever the condition."""
    tried: list[Row] = field(default_factory=list)
    """Configurations trained for each method, whatever the condition."""
    searches: list[Row] = field(default_factory=list)
    """The searches of tunes, of the methods shown."""
    trials: list[Row] = field(default_factory=list)
    """Every trial of these."""
    tunes: Mapping[str, TuneRecord] = field(default_factory=dict)
    """The same as records, by key: the name, after its origin and a colon if it was imported."""
    failures: list[Row] = field(default_factory=list)
    """Every failed task: no condition hides them (docs/rules.md: failures stay visible), since a failed cell
    is in no other view."""
    methods: list[str] = field(default_factory=list)
    """Every method of the database, filtered or not, so that a method keeps its colour."""
    baselines: frozenset[str] = frozenset()
    """The baseline methods: one, except with imported results."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The columns of views whose rows have additional columns here."""
    where: str | None = None
    view: str = "frontier"
    """The view that `where` is a condition on."""
    sweep: str | None = None
    """The sweep whose cells are shown; None for all."""
    narrowed: str | None = None
    """Both as one SQL condition."""
    among: str | None = None
    """The same as a condition on the cell of a row of other views."""
    attack: str | None = None
    """The attack to draw by; None for the strongest of each cell."""
    fpr: float | None = None
    """The FPR of the TPR to draw; None for 1 %, or 10 % if that is not resolved."""

    @property
    def groups(self) -> list[str]:
        """The groups (see `name_groups`) with a row in the frontier, sorted."""
        return sorted({row["group"] for row in self.frontier})

    @property
    def threads(self) -> list[int]:
        """The numbers of threads of the training runs."""
        return sorted({row["threads"] for row in self.overhead if row["threads"] is not None})

    @property
    def query(self) -> str:
        """The selection behind the report, for its metadata."""
        return select(self.view, self.narrowed or self.where)

    @property
    def condition(self) -> str | None:
        """The selection in words; None if everything is shown."""
        return " and ".join(filter(None, [self.sweep and f"sweep {self.sweep}", self.where])) or None


def read(
    store: Source,
    where: str | None = None,
    view: str = "frontier",
    attack: str | None = None,
    fpr: float | None = None,
    sweep: str | None = None,
    whole: bool = False,
) -> Reading:
    """Read a report's rows from one snapshot of the store's database, to be drawn by an attack and at an FPR.

    `where` is an SQL condition on `view` (frontier or overhead); the other view is limited to the
    cells it selects, and all to the cells of a `sweep`. SpecError for a condition that is wrong, or that no
    row of the view fits; for a sweep that a report on the `whole` shows, no row of any. SpecError also for an
    attack that is in no row.
    """
    with open_reader(store) as reader:
        reading = _read(reader, where, view, sweep)
    needed = [reading.overhead, reading.bench] if view == "overhead" else [reading.frontier]
    if whole and not where:
        needed += [reading.overhead, reading.bench, reading.reconstructions, reading.attributes]
    refuse_nothing([row for rows in needed for row in rows], view, where, sweep)
    refuse_absent_attack(reading.frontier, attack)
    return replace(reading, pictures=_pictures(store, reading.reconstructions), attack=attack, fpr=fpr)


def _read(reader: Reader, where: str | None, view: str, sweep: str | None) -> Reading:
    """All rows of the report."""
    other = "overhead" if view == "frontier" else "frontier"
    part, narrowed = narrow(reader, None, sweep), narrow(reader, where, sweep)
    related = f"cell in ({select(view, narrowed, 'cell')})" if where else part
    conditions = {view: narrowed, other: related}
    rows = {
        name: read_rows(reader, select(name, both(condition, NO_TRIAL)))
        for name, condition in conditions.items()
    }
    columns = {name: tuple(found[0]) for name, found in rows.items() if found}
    cells = {row["cell"]: row for row in read_rows(reader, CELLS)}
    rows = {name: [{**cells[row["cell"]], **row} for row in rows[name]] for name in rows}
    # An inversion alone has no row in the frontier: without a condition all are shown.
    among = f"cell in ({select('frontier', conditions['frontier'], 'cell')})" if where else part
    rebuilt = read_rows(reader, f"{select('reconstruction', among)} order by cell, attack_task")
    runs = read_rows(reader, select(f"({RUNS}) run", both(among, NO_TRIAL)))
    benches = _benches(reader, rows["overhead"] if narrowed else None, sweep)
    shown = [*rows["frontier"], *rows["overhead"]] if narrowed else None
    searches, tunes = _tunes(reader, "select * from search", shown)
    trials = read_rows(reader, "select * from trial order by search, study, trial")
    name_groups([*rows["frontier"], *rows["overhead"], *benches])
    seen = [*cells.values(), *benches]
    baselines = frozenset(row["method"] for row in seen if row["role"] in (PLAIN, YARDSTICK))
    order = partial(_order, baselines)
    return Reading(
        frontier=sorted(rows["frontier"], key=order),
        rocs=_rocs(reader, [row["attack_task"] for row in rows["frontier"]]),
        ceilings=_ceilings(reader),
        overhead=sorted(rows["overhead"], key=order),
        bench=list(benches),
        audits=list(read_rows(reader, AUDITS)),
        reconstructions=list(rebuilt),
        attributes=list(read_rows(reader, f"{select('attribute', among)} order by {ATTRIBUTES}")),
        runs=sorted(runs, key=lambda row: (row["cell"], row["index"])),
        illustrated=list(read_rows(reader, ILLUSTRATED)),
        reproduction=list(read_rows(reader, "select * from reproduction order by published_key")),
        standings=list(read_rows(reader, "select * from baseline order by dataset, difference, cell")),
        forgotten=list(read_rows(reader, "select * from forgotten order by forgotten, key")),
        conflicts=list(read_rows(reader, "select * from conflicts order by origin, task, figure")),
        comparisons=list(read_rows(reader, "select * from comparison order by workload, axis, cell, other")),
        tried=list(read_rows(reader, "select * from tried order by workload, method, epsilon_asked, levels")),
        searches=searches,
        trials=[row for row in trials if row["search"] in {each["search"] for each in searches}],
        tunes=tunes,
        failures=sorted(read_rows(reader, "select * from failures"), key=order),
        methods=sorted({row["method"] for row in seen}),
        baselines=baselines,
        columns=columns,
        where=where,
        view=view,
        sweep=sweep,
        narrowed=narrowed,
        among=among,
    )


def _rocs(reader: Reader, tasks: Sequence[str]) -> dict[str, Roc]:
    """The curves of attacks, in chunks and as arrays: those of a large store would take gigabytes."""
    found = {}
    for start in range(0, len(tasks), AT_ONCE):
        keys = ", ".join("'" + key.replace("'", "''") + "'" for key in tasks[start : start + AT_ONCE])
        for row in read_rows(reader, f"select task, roc from attack_result where task in ({keys})"):
            if row["roc"]:
                found[row["task"]] = Roc(array("d", row["roc"]["fpr"]), array("d", row["roc"]["tpr"]))
    return found


def _ceilings(reader: Reader) -> dict[str, Roc]:
    """The ceilings of cells; if the models of one have several, the highest at every FPR."""
    found: dict[str, Roc] = {}
    for row in read_rows(reader, CEILINGS):
        curve = Roc(**json.loads(row["curve"]))
        standing = found.get(row["cell"], curve)
        found[row["cell"]] = Roc(curve.fpr, np.maximum(curve.tpr, standing.tpr).tolist())
    return found


def read_pictures(store: Store, task: str) -> Pictures:
    """The pictures of an inversion in the store; StoreError if they are missing or damaged."""
    result = store.result(task)
    if result is None or "pictures" not in result.artefacts:
        raise StoreError(f"the pictures of task {task} are not in the store: run `privbench collect`")
    found = load(store.read_artefact(result, "pictures"))
    return Pictures(found["originals"], found["rebuilt"])


def _pictures(store: Source, rows: Iterable[Row]) -> dict[str, Pictures]:
    """Pictures of the first attacks; missing ones are skipped."""
    if is_url(store):
        return {}
    found = {}
    for row in islice(rows, GALLERIES):
        with suppress(StoreError):
            found[row["attack_task"]] = read_pictures(Store.open(store), row["attack_task"])
    return found


def _benches(reader: Reader, among: Iterable[Row] | None, sweep: str | None) -> list[dict[str, Any]]:
    """The newest benches; those of the workloads and methods of `among` if given, and those of the sweep."""
    columns = "workload, method, batch_size, variant, host, device, threads"
    where = "newest and status = 'done' and role <> 'control'"
    rows = read_rows(reader, f"{select('bench', where)} order by {columns}")
    if among is None:
        return rows
    wanted = {(row["workload"], row["method"]) for row in among}
    return [
        row
        for row in rows
        if (row["workload"], row["method"]) in wanted or sweep in (row["sweep"] or "").split(", ")
    ]


def rows_of_view(
    store: Source,
    view: str,
    order: str,
    where: str | None,
    sweep: str | None = None,
    columns: Sequence[str] = ("cell",),
) -> tuple[list[dict[str, Any]], str]:
    """The rows of a view that a report shows, and the selection behind them; SpecError if none fits."""
    with open_reader(store) as reader:
        sql = select(view, narrow(reader, where, sweep, columns))
        rows = read_rows(reader, f"{sql} order by {order}")
    refuse_nothing(rows, view, where, sweep)
    return rows, sql


def read_searches(
    store: Source, where: str | None = None, sweep: str | None = None, name: str | None = None
) -> tuple[dict[str, TuneRecord], str]:
    """Tunes by key with the searches that a report shows, and the selection behind them.

    `where` is a condition on the view `search`, `name` the key of a tune. SpecError if none fits.
    """
    with open_reader(store) as reader:
        known = [row["key"] for row in read_rows(reader, "select key from tune_result")]
        if name is not None and name not in known:
            raise UnknownName("tune", name, known)
        named = f"starts_with(search, '{name}/')" if name else None
        sql = select("search", narrow(reader, both(where, named), sweep))
        rows, tunes = _tunes(reader, sql)
    refuse_nothing(rows, "search", where, sweep)
    return tunes, sql


def _tunes(
    reader: Reader, sql: str, shown: Iterable[Row] | None = None
) -> tuple[list[Row], dict[str, TuneRecord]]:
    """The searches that a statement selects, and their records; only of methods shown, if any are given."""
    rows: list[Row] = list(read_rows(reader, f"{sql} order by search"))
    if shown is not None:
        wanted = {(row["workload"], row["method"]) for row in shown}
        rows = [row for row in rows if (row["workload"], row["method"]) in wanted]
    selected = {row["search"] for row in rows}
    tunes = {}
    for row in read_rows(reader, "select key, record from tune_result order by key"):
        record = TuneRecord.model_validate(row["record"])
        own = [each for place, each in enumerate(record.searches) if f"{row['key']}/{place}" in selected]
        if own:
            tunes[row["key"]] = record.model_copy(update={"searches": own})
    return rows, tunes


def rows_of(store: Source, sql: str) -> list[dict[str, Any]]:
    """The rows of one read-only statement."""
    with open_reader(store) as reader:
        return read_rows(reader, sql)


def read_rows(reader: Reader, sql: str) -> list[dict[str, Any]]:
    """The rows of one statement on the reader's snapshot."""
    answer = reader.execute(sql)
    decode = cache(json.loads)  # rows share texts, e.g. parameters and provenance
    decoders = {name: decode if name in answer.json_columns else None for name in answer.columns}
    return [
        {name: _plain(value, decoder) for (name, decoder), value in zip(decoders.items(), row, strict=True)}
        for row in answer.rows
    ]


def name_groups(rows: Sequence[dict[str, Any]]) -> None:
    """Set the `group` of each row: the rows that may be compared.

    That is the workload, with version and number of members if the rows hold several, and with the canaries
    among its records; imported rows, and those of another protocol, are separate.
    """
    variants: dict[str, set[tuple[Any, Any]]] = defaultdict(set)
    for row in rows:
        variants[row["workload"]].add((row["workload_version"], row["n_train"]))
    for row in rows:
        many = len(variants[row["workload"]]) > 1
        which = f" (version {row['workload_version']}, {row['n_train']:,} members)"
        newer = row.get("canary_version") not in (None, FIRST_VERSION)
        kind = f"{row['canary']} (version {row['canary_version']})" if newer else row.get("canary")
        canaries = f" with {row['canaries']} {kind} canaries" if kind else ""
        row["group"] = row["workload"] + (which if many else "") + canaries + _apart(row)


def _apart(row: Row) -> str:
    """What separates a row from ours: its origin, and the protocol if it is not the current one."""
    origin, protocol = row.get("origin"), row.get("protocol", PROTOCOL)
    return (f", from {origin}" if origin else "") + (f", protocol {protocol}" if protocol != PROTOCOL else "")


def group_failures(failures: Iterable[Row]) -> list[dict[str, Any]]:
    """Failed tasks of one cell with one reason as one entry with their number and the first message."""
    names = ("workload", "method", "label", "kind", "reason")
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    count: Counter[tuple[Any, ...]] = Counter()
    for row in failures:
        key = tuple(row.get(name) for name in names)
        count[key] += 1
        found.setdefault(key, {**dict(zip(names, key, strict=True)), "message": row.get("message")})
    return [{**entry, "tasks": count[key]} for key, entry in found.items()]


def program_version() -> str:
    """The installed version of privbench, for the metadata of reports."""
    try:
        return version("privbench")
    except PackageNotFoundError:
        return "from source"


def _plain(value: Any, decode: Callable[[str], Any] | None) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if decode is not None and value is not None:
        return decode(value)
    return value


def _order(baselines: Collection[str], row: Row) -> tuple[Any, ...]:
    """By workload, method (the baseline first), epsilon, then names: a total order."""
    epsilon = row.get("epsilon")
    last = ("label", "cell", "attack", "attack_task", "task")
    names = tuple(str(row.get(name)) for name in last)
    method = str(row["method"])
    return str(row["workload"]), method not in baselines, method, epsilon is None, epsilon or 0.0, *names
