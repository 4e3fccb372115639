"""The tables: what every task gave, in columns. Built from the store by harness/results/collect.py alone.

Keys are the store's own (hashes of canonical JSON); those of an imported task and its cell have its
origin and a colon before them, so that nobody's rows meet ours. There are no foreign keys on purpose: DuckDB
refuses to replace a parent row while its children stand, and the collector replaces rows.
Numbers are 64 bit throughout. Times are UTC.
"""

from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

VERSION = 3
"""Raised when a column comes to mean something else under its name; databases are then rebuilt."""


class Base(DeclarativeBase):
    """Types of all tables; sa.Float would be 32 bit in DuckDB."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        # Texts compare by their bytes, as in DuckDB, whatever language the server was set up in.
        str: sa.String().with_variant(sa.Text(collation="C"), "postgresql"),
        int: sa.BigInteger,
        float: sa.Double,
        datetime: sa.DateTime,
        dict[str, Any]: sa.JSON,
        list[str]: sa.JSON,
    }


class Schema(Base):
    """One row: the fingerprint of the tables and views this database was made with."""

    __tablename__ = "privbench_schema"

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    store: Mapped[str] = mapped_column(default="")
    """Which store it mirrors, by the store's identity; empty for the one it lies in."""


class Cell(Base):
    """One point of a grid: workload x method x parameters."""

    __tablename__ = "cell"

    key: Mapped[str] = mapped_column(primary_key=True)
    workload: Mapped[str]
    workload_version: Mapped[str]
    method: Mapped[str]
    method_version: Mapped[str]
    role: Mapped[str | None]
    """`plain-baseline` or `private-baseline`: what others are compared with; null for all other methods."""
    solved: Mapped[str | None]
    """The parameter that was solved for to meet `epsilon_asked`; null where nothing was."""
    illustrated: Mapped[bool] = mapped_column(default=False)
    """Whether the method brings figures of its own: `privbench report theory` draws them."""
    params: Mapped[dict[str, Any]]
    """Resolved parameters; an infinity is {"$number": "inf"} as in the task."""
    epsilon_asked: Mapped[float | None]
    """The target epsilon; null where the method has none or was given its noise directly."""
    delta: Mapped[float | None]
    seed: Mapped[int]
    n_train: Mapped[int]
    batch_size: Mapped[int | None]
    """The parameter of that name, which time per example is told by; null where the method has none."""
    label: Mapped[str]
    """A short name for people: the method and its epsilon, or what the sweep called it."""
    configuration: Mapped[str] = mapped_column(default="")
    """A hash of the parameters that were chosen: without epsilon, delta, what was solved for, and what
    changes no number."""
    levels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Parameters beside epsilon that trade privacy."""
    tried_before: Mapped[int | None]
    """Configurations tried before, by the recipe values really used; the highest count any task was given."""
    tuned_by: Mapped[str | None]
    """`recipe`, `paper`, or null where no value was tuned."""
    tuned_on: Mapped[str | None]
    """`validation` (non-members) or, of some papers, `test`."""
    canary: Mapped[str | None]
    """The kind of canaries among the records; null where there are none."""
    canaries: Mapped[int] = mapped_column(default=0)
    canary_version: Mapped[str | None]
    """Of the kind of canaries."""
    origin: Mapped[str] = mapped_column(default="")
    """Whose result it is: the name it was imported under; empty for this store's own."""
    protocol: Mapped[int]
    """The protocol it was planned under: numbers of two are not compared."""


class Task(Base):
    """Every task that has ended, done or failed."""

    __tablename__ = "task"

    key: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    """`train`, `attack` or `bench`."""
    cell: Mapped[str | None]
    """Null for a bench, which times several."""
    workload: Mapped[str]
    method: Mapped[str | None]
    """Null for a bench."""
    attack: Mapped[str | None]
    index: Mapped[int | None]
    """Which model of the cell; null for an attack."""
    status: Mapped[str]
    """`done` or `failed`."""
    reason: Mapped[str | None]
    message: Mapped[str | None]
    started: Mapped[datetime | None]
    finished: Mapped[datetime | None]
    wall_seconds: Mapped[float | None]
    host: Mapped[str | None]
    device: Mapped[str | None]
    threads: Mapped[int | None]
    provenance: Mapped[dict[str, Any]]
    spec: Mapped[dict[str, Any]]
    """The canonical task: everything that decides the numbers."""
    protocol: Mapped[int]
    steps_file: Mapped[str | None]
    """The full series of step times, as a path inside the store."""
    checksum: Mapped[str]
    """The result's own; tells the collector what it has."""
    origin: Mapped[str] = mapped_column(default="")


class TaskStamp(Base):
    """What the files of a task looked like when they were collected: the same look is not read again."""

    __tablename__ = "task_stamp"

    task: Mapped[str] = mapped_column(primary_key=True)
    stamp: Mapped[str]


class ModelRun(Base):
    """One trained model: utility, guarantee and cost.

    Step figures are of the phase that took the most time in total, named in `phase`; the others are
    in `step_time`. Memory is the worst over all phases.
    """

    __tablename__ = "model_run"

    task: Mapped[str] = mapped_column(primary_key=True)
    cell: Mapped[str]
    index: Mapped[int]
    test_accuracy: Mapped[float | None]
    test_loss: Mapped[float | None]
    train_accuracy: Mapped[float | None]
    nonmember_accuracy: Mapped[float | None]
    train_loss: Mapped[float | None]
    set_aside: Mapped[int | None]
    """Members that never trained the model, by its method's declaration: neither members nor non-members."""
    guarantee_kind: Mapped[str]
    epsilon: Mapped[float | None]
    """Priced by the harness from the ledger; null where there is no guarantee."""
    delta: Mapped[float | None]
    adjacency: Mapped[str | None]
    accountant: Mapped[str | None]
    epsilon_pld: Mapped[float | None]
    epsilon_rdp: Mapped[float | None]
    epsilon_paper: Mapped[float | None]
    """What the authors' own charge comes to where it is disputed, e.g. for accepted attempts only."""
    assumptions: Mapped[list[str]]
    ceiling_by: Mapped[str | None]
    """How the ceilings on attacks were found: `pld twice`, `replace-one` or `epsilon-delta twice`; null where
    nothing is promised."""
    ceiling_auc: Mapped[float | None]
    ceiling_tpr_at_10pct: Mapped[float | None]
    ceiling_tpr_at_1pct: Mapped[float | None]
    ceiling_tpr_at_0p1pct: Mapped[float | None]
    ceiling_tpr_at_0p01pct: Mapped[float | None]
    ceiling_gap: Mapped[float | None]
    """TPR less FPR where that is largest: what members and non-members may differ by in any mean."""
    ceiling_curve: Mapped[dict[str, Any] | None]
    """The whole curve: `fpr` and the highest `tpr` there."""
    stats: Mapped[dict[str, Any]]
    phase: Mapped[str | None]
    steps: Mapped[int | None]
    step_seconds_p25: Mapped[float | None]
    step_seconds_median: Mapped[float | None]
    step_seconds_p75: Mapped[float | None]
    step_cpu_seconds_p25: Mapped[float | None]
    step_cpu_seconds_median: Mapped[float | None]
    step_cpu_seconds_p75: Mapped[float | None]
    train_seconds: Mapped[float | None]
    """Wall seconds of all steps of all phases, without loading and evaluation."""
    peak_memory_bytes: Mapped[int | None]
    extra_memory_bytes: Mapped[int | None]
    """Peak above the level at the phase's start."""


class StepTime(Base):
    """Step times: quantiles of every phase and clock, and evenly thinned single steps.

    A quantile row has `quantile` and no `step`; a single step has `step` and no `quantile`, and its
    clock is `step`. The full series, every clock included, stays in the store's Parquet files.
    """

    __tablename__ = "step_time"

    task: Mapped[str]
    phase: Mapped[str]
    clock: Mapped[str]
    """`step` for the whole step, or the name of a part of it."""
    quantile: Mapped[float | None]
    step: Mapped[int | None]
    wall_seconds: Mapped[float | None]
    cpu_seconds: Mapped[float | None]
    """Null for a part of a step: only its wall time is taken."""

    # The ORM's identity only: an index over millions of rows would cost more than it gives.
    __mapper_args__ = {"primary_key": ["task", "phase", "clock", "quantile", "step"]}  # noqa: RUF012


class BenchResult(Base):
    """One method in one bench: its steps timed in turn with those of the plain baseline, in one process.

    The ratios are of CPU time, on a GPU of the device's time, and without drawing the batch unless
    they say otherwise. Figures are null where the method failed.
    """

    __tablename__ = "bench_result"

    task: Mapped[str] = mapped_column(primary_key=True)
    variant: Mapped[str] = mapped_column(primary_key=True)
    """The method, with the parameters that tell it from others of this bench."""
    role: Mapped[str]
    """`yardstick` (the plain baseline), `control` (the same, measured again) or `method`."""
    workload: Mapped[str]
    workload_version: Mapped[str]
    n_train: Mapped[int]
    batch_size: Mapped[int]
    logical_batch_size: Mapped[int | None]
    physical_batch_size: Mapped[int | None]
    parameters: Mapped[int]
    """Trainable numbers of the model."""
    method: Mapped[str]
    method_version: Mapped[str]
    guarantee_kind: Mapped[str]
    """The promise the method makes by design."""
    engine: Mapped[str | None]
    """As asked for; null where the method has none."""
    engine_used: Mapped[str | None]
    """What `auto` came to."""
    params: Mapped[dict[str, Any]]
    step_params: Mapped[dict[str, Any] | None]
    """Those that decide what a step computes: all but real numbers and `steps`; null in older benches."""
    device: Mapped[str]
    """`cpu` or `cuda`; the task tells which."""
    threads: Mapped[int]
    malloc: Mapped[dict[str, Any]]
    """Environment variables that steer memory allocation."""
    status: Mapped[str]
    reason: Mapped[str | None]
    message: Mapped[str | None]
    trustworthy: Mapped[bool]
    doubt: Mapped[str | None]
    """Why it is not trustworthy."""
    steps: Mapped[int]
    ratio: Mapped[float | None]
    ratio_low: Mapped[float | None]
    ratio_high: Mapped[float | None]
    ratio_whole_step: Mapped[float | None]
    """With drawing the batch."""
    ratio_wall: Mapped[float | None]
    """By the wall clock."""
    median_cpu_seconds: Mapped[float | None]
    iqr_cpu_seconds: Mapped[float | None]
    median_wall_seconds: Mapped[float | None]
    iqr_wall_seconds: Mapped[float | None]
    median_net_seconds: Mapped[float | None]
    """What `ratio` is made of."""
    seconds_per_update: Mapped[float | None]
    """Time of all steps over the updates they made; null where the method rejects none."""
    peak_memory_bytes: Mapped[int | None]
    """The highest point of a step above the level before it."""
    resting_memory_bytes: Mapped[int | None]
    memory_ratio: Mapped[float | None]
    clocks: Mapped[dict[str, Any]]
    phases: Mapped[dict[str, Any]]
    """Timed steps by phase."""


class BenchMatch(Base):
    """A cell whose step a bench timed: the same work at the same batch size, found at collection."""

    __tablename__ = "bench_match"

    cell: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str] = mapped_column(primary_key=True)
    """The bench."""
    variant: Mapped[str] = mapped_column(primary_key=True)


class Published(Base):
    """One number of a paper, as printed; made from harness/papers/ and the same in every database."""

    __tablename__ = "published"

    key: Mapped[str] = mapped_column(primary_key=True)
    cell: Mapped[str]
    """The line of the printed table that the number stands in: `<table_name>/<number>`."""
    source: Mapped[str]
    citation: Mapped[str]
    table_name: Mapped[str]
    printed: Mapped[str]
    """Where the table stands in the paper."""
    about: Mapped[str]
    protocol: Mapped[list[str]]
    """What is done in another way by privbench, for the whole table."""
    workload: Mapped[str | None]
    """By its name here; null where no workload is the paper's."""
    method: Mapped[str | None]
    label: Mapped[str]
    """The method as the paper calls it."""
    printed_workload: Mapped[str]
    """Data and model as the paper calls them."""
    params: Mapped[dict[str, Any]]
    """What identifies the cell beside workload and method."""
    stated: Mapped[dict[str, Any]]
    """Further settings that the paper or its repository states."""
    n_train: Mapped[int | None]
    runs: Mapped[int | None]
    """Trainings behind the number."""
    metric: Mapped[str]
    attack: Mapped[str | None]
    """The attack here that is the paper's; `strongest` is the best of population, reference and shadow."""
    unit: Mapped[str | None]
    """`%`, `ms`, or null for a plain number."""
    value: Mapped[float]
    deviation: Mapped[float | None]
    """Standard deviation in print; null where there is none."""
    decimals: Mapped[int]
    """Digits after the point in print."""
    unmatchable: Mapped[str | None]
    """Why no cell can be this one."""
    note: Mapped[str | None]


class PublishedMatch(Base):
    """A trained cell that is a paper's: same workload, method and identifying parameters."""

    __tablename__ = "published_match"

    published: Mapped[str] = mapped_column(primary_key=True)
    """`cell` of the table `published`."""
    cell: Mapped[str] = mapped_column(primary_key=True)
    place: Mapped[int]
    """1 for the cell that the view `reproduction` shows: the nearest in protocol, never in result."""
    differences: Mapped[list[str]]
    """What differs between the paper's settings and the cell's."""
