"""The tables: the results of every task, in columns. Built from the store by harness/results/collect.py only.

Keys are the store's own (hashes of canonical JSON); those of an imported task and its cell are prefixed by
its origin and a colon, so that they never collide with ours. There are deliberately no foreign keys: DuckDB
refuses to replace a parent row that has children, and the collector replaces rows.
Numbers are 64 bit throughout. Times are UTC.
"""

from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Types of all tables; sa.Float would be 32 bit in DuckDB."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        # Texts compare by their bytes, as in DuckDB, whatever the server's locale.
        str: sa.String().with_variant(sa.Text(collation="C"), "postgresql"),
        int: sa.BigInteger,
        float: sa.Double,
        datetime: sa.DateTime,
        dict[str, Any]: sa.JSON,
        list[str]: sa.JSON,
    }


class Schema(Base):
    """One row: the fingerprint of the tables and views of this database."""

    __tablename__ = "privbench_schema"

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    store: Mapped[str] = mapped_column(default="")
    """The identity of the store it mirrors; empty for the store it is in."""


class Cell(Base):
    """One point of a grid: workload x method x parameters."""

    __tablename__ = "cell"

    key: Mapped[str] = mapped_column(primary_key=True)
    workload: Mapped[str]
    workload_version: Mapped[str]
    dataset: Mapped[str | None]
    """The published data set of the workload; null if it has records of its own."""
    method: Mapped[str]
    method_version: Mapped[str]
    role: Mapped[str | None]
    """`plain-baseline` or `private-baseline`, which others are compared with; null for all other methods."""
    solved: Mapped[str | None]
    """The parameter that was solved for to meet `epsilon_asked`; null if none was."""
    illustrated: Mapped[bool] = mapped_column(default=False)
    """Whether the method has figures of its own, drawn by `privbench report theory`."""
    params: Mapped[dict[str, Any]]
    """Resolved parameters; an infinity is {"$number": "inf"} as in the task."""
    epsilon_asked: Mapped[float | None]
    """The target epsilon; null if the method has none or was given its noise directly."""
    delta: Mapped[float | None]
    seed: Mapped[int]
    n_train: Mapped[int]
    batch_size: Mapped[int | None]
    """The parameter of that name, used for the time per example; null if the method has none."""
    label: Mapped[str]
    """A short name for display: the method and its epsilon, or the sweep's name for it."""
    configuration: Mapped[str] = mapped_column(default="")
    """A hash of the chosen parameters: without epsilon, delta, the solved parameter, and those that change no
    number."""
    levels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Parameters besides epsilon that trade privacy."""
    tried_before: Mapped[int | None]
    """Configurations tried before, by the recipe values in use; the highest count of any task."""
    tuned_by: Mapped[str | None]
    """`recipe`, `paper`, `tune:` and the name of a tune, or null if no value was tuned."""
    tuned_on: Mapped[str | None]
    """`validation` (non-members) or, of some papers, `test`."""
    tuned_at: Mapped[str | None]
    """Where the recipe's values were tuned, if that is not this epsilon and number of members."""
    tune: Mapped[str | None]
    """The checksum of the tune that the values are of."""
    trials: Mapped[int | None]
    """Of each study of the tune."""
    studies: Mapped[int | None]
    study: Mapped[int | None]
    """The study of the tune that chose all of the values."""
    canary: Mapped[str | None]
    """The kind of canaries among the records; null without canaries."""
    canaries: Mapped[int] = mapped_column(default=0)
    canary_version: Mapped[str | None]
    """Of the kind of canaries."""
    origin: Mapped[str] = mapped_column(default="")
    """The name it was imported under; empty for this store's own."""
    protocol: Mapped[int]
    """The protocol it was planned under: numbers of different protocols are not compared."""


class Task(Base):
    """Every task that has ended, done or failed."""

    __tablename__ = "task"

    key: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    """`train`, `attack` or `bench`."""
    cell: Mapped[str | None]
    """Null for a bench, which times several cells."""
    workload: Mapped[str]
    method: Mapped[str | None]
    """Null for a bench."""
    attack: Mapped[str | None]
    index: Mapped[int | None]
    """The index of the model in the cell; null for an attack."""
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
    """The canonical task: everything that determines the numbers."""
    protocol: Mapped[int]
    steps_file: Mapped[str | None]
    """The full series of step times, as a path inside the store."""
    checksum: Mapped[str]
    """Of the result; by it the collector knows what it has."""
    origin: Mapped[str] = mapped_column(default="")
    forgotten: Mapped[bool] = mapped_column(default=False)
    """Whether its results were taken out of all other tables, by `privbench forget`; a failure stays."""


class TaskStamp(Base):
    """Size and time of a task's files when they were collected: unchanged files are not re-read."""

    __tablename__ = "task_stamp"

    task: Mapped[str] = mapped_column(primary_key=True)
    stamp: Mapped[str]


class Sweep(Base):
    """A sweep of this store as it was last enqueued; imports have none."""

    __tablename__ = "sweep"

    name: Mapped[str] = mapped_column(primary_key=True)
    enqueued: Mapped[datetime | None]
    backend: Mapped[str | None]
    tasks: Mapped[int]
    stamp: Mapped[str]
    """Size and time of its file when it was collected: an unchanged one is not re-read."""


class SweepTask(Base):
    """A task of a sweep, ended or not; one task may be part of several sweeps."""

    __tablename__ = "sweep_task"

    sweep: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str] = mapped_column(primary_key=True)
    cell: Mapped[str | None]
    """Its cell, if that is one of the sweep; null for a bench, and for shadows that only attacks need."""


class ForgottenResult(Base):
    """A record of `privbench forget`: a cell with all of its tasks, or an attack or a bench alone."""

    __tablename__ = "forgotten_result"

    key: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    """`cell`, `attack` or `bench`."""
    forgotten: Mapped[datetime]
    why: Mapped[str]


class ModelRun(Base):
    """One trained model: utility, guarantee and cost.

    Step figures are of the phase that took the most time in total, named in `phase`; the others are
    in `step_time`. Memory is the maximum over all phases.
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
    majority_accuracy: Mapped[float | None]
    top10_accuracy: Mapped[float | None]
    """Null with at most ten classes."""
    """Accuracy on test records of always predicting their most common class; null in results of 0.1."""
    set_aside: Mapped[int | None]
    """Members that the method set aside, by its declaration: counted neither as members nor non-members."""
    guarantee_kind: Mapped[str]
    epsilon: Mapped[float | None]
    """Computed by the harness from the ledger; null without a guarantee."""
    delta: Mapped[float | None]
    adjacency: Mapped[str | None]
    accountant: Mapped[str | None]
    epsilon_pld: Mapped[float | None]
    epsilon_rdp: Mapped[float | None]
    epsilon_rdp_classic: Mapped[float | None]
    """By the conversion of Mironov 2017, which older papers print: to compare with theirs."""
    epsilon_paper: Mapped[float | None]
    """Epsilon by the authors' own charge if it is disputed, e.g. for accepted attempts only."""
    assumptions: Mapped[list[str]]
    ceiling_by: Mapped[str | None]
    """How the ceilings on attacks were derived: `pld twice`, `replace-one` or `epsilon-delta twice`; null
    without a guarantee."""
    ceiling_auc: Mapped[float | None]
    ceiling_tpr_at_10pct: Mapped[float | None]
    ceiling_tpr_at_1pct: Mapped[float | None]
    ceiling_tpr_at_0p1pct: Mapped[float | None]
    ceiling_tpr_at_0p01pct: Mapped[float | None]
    ceiling_gap: Mapped[float | None]
    """The largest TPR - FPR: the most that any mean can differ between members and non-members."""
    ceiling_curve: Mapped[dict[str, Any] | None]
    """The whole curve: `fpr` and the highest `tpr` at it."""
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
    code_fingerprint: Mapped[str | None]
    """Of the code that it was trained with; null for results of privbench 0.1."""
    data_fingerprint: Mapped[str | None]
    """Of pool and test records, keyed by a secret of its store: comparable within one origin only."""


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
    """Null for a part of a step: only its wall time is measured."""

    # The ORM's identity only: an index over millions of rows would cost more than it saves.
    __mapper_args__ = {"primary_key": ["task", "phase", "clock", "quantile", "step"]}  # noqa: RUF012


class BenchResult(Base):
    """One method in one bench: its steps interleaved with those of the plain baseline, in one process.

    The ratios are of CPU time, on a GPU of the device's time, and without drawing the batch unless stated
    otherwise. Figures are null if the method failed.
    """

    __tablename__ = "bench_result"

    task: Mapped[str] = mapped_column(primary_key=True)
    variant: Mapped[str] = mapped_column(primary_key=True)
    """The method, with the parameters that distinguish it from others of this bench."""
    role: Mapped[str]
    """`yardstick` (the plain baseline), `control` (the same, remeasured) or `method`."""
    workload: Mapped[str]
    workload_version: Mapped[str]
    n_train: Mapped[int]
    batch_size: Mapped[int]
    logical_batch_size: Mapped[int | None]
    physical_batch_size: Mapped[int | None]
    parameters: Mapped[int]
    """Trainable parameters of the model."""
    method: Mapped[str]
    method_version: Mapped[str]
    guarantee_kind: Mapped[str]
    """The kind of guarantee the method has by design."""
    engine: Mapped[str | None]
    """The target; null if the method has none."""
    engine_used: Mapped[str | None]
    """What `auto` resolved to."""
    params: Mapped[dict[str, Any]]
    step_params: Mapped[dict[str, Any] | None]
    """Those that determine what a step computes: all but real numbers and `steps`; null in older benches."""
    device: Mapped[str]
    """`cpu` or `cuda`; details are in the task."""
    threads: Mapped[int]
    malloc: Mapped[dict[str, Any]]
    """Environment variables that control memory allocation."""
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
    """Including drawing the batch."""
    ratio_wall: Mapped[float | None]
    """By the wall clock."""
    median_cpu_seconds: Mapped[float | None]
    iqr_cpu_seconds: Mapped[float | None]
    median_wall_seconds: Mapped[float | None]
    iqr_wall_seconds: Mapped[float | None]
    median_net_seconds: Mapped[float | None]
    """The time behind `ratio`."""
    seconds_per_update: Mapped[float | None]
    """Time of all steps per accepted update; null if the method rejects none."""
    peak_memory_bytes: Mapped[int | None]
    """The peak of a step above the level before it."""
    resting_memory_bytes: Mapped[int | None]
    memory_ratio: Mapped[float | None]
    clocks: Mapped[dict[str, Any]]
    phases: Mapped[dict[str, Any]]
    """Timed steps by phase."""


class BenchMatch(Base):
    """A cell whose step a bench timed: the same work at the same batch size, matched at collection."""

    __tablename__ = "bench_match"

    cell: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str] = mapped_column(primary_key=True)
    """The bench."""
    variant: Mapped[str] = mapped_column(primary_key=True)


class Published(Base):
    """One number of a paper, as printed; from harness/papers/, and the same in every database."""

    __tablename__ = "published"

    key: Mapped[str] = mapped_column(primary_key=True)
    cell: Mapped[str]
    """The row of the printed table that holds the number: `<table_name>/<number>`."""
    source: Mapped[str]
    citation: Mapped[str]
    table_name: Mapped[str]
    printed: Mapped[str]
    """The location of the table in the paper."""
    about: Mapped[str]
    protocol: Mapped[list[str]]
    """What privbench does differently, for the whole table."""
    workload: Mapped[str | None]
    """Its name here; null if no workload is the paper's."""
    method: Mapped[str | None]
    label: Mapped[str]
    """The paper's name of the method."""
    printed_workload: Mapped[str]
    """The paper's names of data and model."""
    params: Mapped[dict[str, Any]]
    """What identifies the cell besides workload and method."""
    stated: Mapped[dict[str, Any]]
    """Further settings that the paper or its repository states."""
    dataset: Mapped[str | None]
    """The data set of our workload."""
    n_train: Mapped[int | None]
    epsilon: Mapped[float | None]
    """As printed: a result, or among `params`."""
    delta: Mapped[float | None]
    accountant: Mapped[str | None]
    """How the printed epsilon was counted: `rdp_classic`, `rdp` or `paper`; null if it is not stated."""
    runs: Mapped[int | None]
    """Training runs behind the number."""
    metric: Mapped[str]
    attack: Mapped[str | None]
    """The attack here that is the paper's; `strongest` is the best of population, reference and shadow."""
    unit: Mapped[str | None]
    """`%`, `ms`, or null for a plain number."""
    value: Mapped[float]
    deviation: Mapped[float | None]
    """The printed standard deviation; null if there is none."""
    decimals: Mapped[int]
    """Printed digits after the decimal point."""
    unmatchable: Mapped[str | None]
    """Why no cell can be this one; null if one can."""
    note: Mapped[str | None]


class PublishedMatch(Base):
    """A trained cell that is a paper's: same workload, method, members and identifying parameters."""

    __tablename__ = "published_match"

    published: Mapped[str] = mapped_column(primary_key=True)
    """`cell` of the table `published`."""
    cell: Mapped[str] = mapped_column(primary_key=True)
    place: Mapped[int]
    """1 for the cell that the view `reproduction` shows: the nearest in protocol, never in result."""
    differences: Mapped[list[str]]
    """What differs between the paper's settings and the cell's."""
