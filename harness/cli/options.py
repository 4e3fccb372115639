"""Options that several commands share, what completes them, and the store they name."""

import os
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workloads.errors import SpecError

if TYPE_CHECKING:
    from harness.backends.base import Settings
    from harness.plan.published_sweep import PublishedSweep
    from workloads.family import Family


def method_names(incomplete: str) -> list[str]:
    """Completion of a method, or of the last in a list with commas."""
    import methods

    return _names(methods.family, incomplete)


def workload_names(incomplete: str) -> list[str]:
    """Completion of a workload, or of the last in a list with commas."""
    import workloads

    return _names(workloads.family, incomplete)


def attack_names(incomplete: str) -> list[str]:
    """Completion of an attack, or of the last in a list with commas."""
    from harness import attacks

    return _names(attacks.family, incomplete)


def backend_names(incomplete: str) -> list[str]:
    """Completion of a backend."""
    from harness import backends

    return _names(backends.family, incomplete)


def _names(family: "Family[Any]", incomplete: str) -> list[str]:
    before, comma, _ = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in family.listed_names() if name not in given]


def ready_made_sweeps() -> list[str]:
    """Completion of a sweep that comes with privbench; shells complete files where none fits."""
    from harness.plan.sweep_file import ready_made

    return list(ready_made())


def published_tables() -> list[str]:
    """Completion of a published table."""
    from harness.papers.published_tables import papers

    return [table.name for paper in papers() for table in paper.table]


def stored_sweeps(context: typer.Context) -> list[str]:
    """Completion of a sweep that was enqueued, in the store that the command names."""
    from harness.store import Store

    return Store(store_path(context.params.get("store"))).sweep_names()


def stored_tunes(context: typer.Context) -> list[str]:
    """Completion of a tune, in the store that the command names."""
    from harness.store import Store
    from harness.store.tunes import tune_names

    return tune_names(Store(store_path(context.params.get("store"))))


def task_keys(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of a task's key, in the store that the command names."""
    from harness.store import Store

    if not set(incomplete) <= set("0123456789abcdef"):
        return []
    tasks = Store(store_path(context.params.get("store"))).tasks
    return sorted(each.name for each in tasks.glob(f"{incomplete[:2]}*/{incomplete}*"))


def member_names(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of a name of the kind that was given before it."""
    complete = {"method": method_names, "workload": workload_names, "attack": attack_names}
    kind = context.params.get("kind")
    if kind == "tune":
        return stored_tunes(context)
    if kind in complete:
        return complete[kind](incomplete)
    return published_tables() if kind == "published" else ready_made_sweeps()


StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="The store's folder; default: $PRIVBENCH_STORE, else ./privbench-store."),
]
AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-changed-code",
        help="Use finished results although code or data changed since; recorded in the store.",
    ),
]
RecipeOption = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        help="A recipe of `privbench tune`, laid over those of the workloads; `shipped`: those that come "
        "with privbench.",
    ),
]
UntunedOption = Annotated[
    bool, typer.Option("--untuned", help="Run a sweep that is to be tuned on the workloads' recipes.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WideOption = Annotated[
    bool, typer.Option("--wide", help="Print tables whole, however narrow the terminal is.")
]
SweepArgument = Annotated[
    str | None,
    typer.Argument(help="A sweep file, or the name of a ready-made sweep.", autocompletion=ready_made_sweeps),
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(
        "--workload", help="Without a file: workloads, separated by commas.", autocompletion=workload_names
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", help="Without a file: methods, separated by commas.", autocompletion=method_names
    ),
]
EpsilonOption = Annotated[
    str | None, typer.Option("--epsilon", help="Without a file: target epsilons, e.g. 1,4,8.")
]
ModelsOption = Annotated[int | None, typer.Option("--models", help="Models per cell (default 8).")]
AttackOption = Annotated[
    str | None,
    typer.Option(
        "--attack",
        help="Without a file: attacks, separated by commas; NAME:PARAMETER=VALUE sets a parameter, e.g. "
        "lira,rmia:gamma=2.",
        autocompletion=attack_names,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Without a file: seed of members, models and noise (default 0)."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Without a file: NAME=VALUE[,VALUE...] of a parameter, or canary=KIND and canaries=N."
    ),
]
MembersOption = Annotated[
    int | None, typer.Option("--n-train", min=1, help="Members per model; default: the workload's.")
]
PublishedOption = Annotated[
    str | None,
    typer.Option(
        "--published",
        help="Run the lines of a published table instead of a sweep; `privbench list published` shows all.",
        autocompletion=published_tables,
    ),
]
LinesOption = Annotated[
    str | None,
    typer.Option("--lines", help="With --published: some of its lines, e.g. 0-3,7; default: all."),
]
SmallOption = Annotated[
    bool,
    typer.Option(
        "--small",
        help="With --published: at most 1,000 members and 100 steps, and as few models as the attacks need, "
        "to see that everything runs. The results count for no line.",
    ),
]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        help="Where jobs run; `privbench list backends` shows which there are.",
        autocompletion=backend_names,
    ),
]
SentOption = Annotated[
    str | None,
    typer.Option(
        "--backend", help="Where jobs run; default: where the sweep was sent.", autocompletion=backend_names
    ),
]
StoredSweepArgument = Annotated[
    str | None,
    typer.Argument(help="A sweep's name; default: all.", autocompletion=stored_sweeps),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option("--profile", help="A TOML file with settings of the backend."),
]
SlotsOption = Annotated[
    int | None, typer.Option("--slots", min=1, help="Tasks at a time; default: one per GPU or core.")
]
ShareOption = Annotated[
    bool, typer.Option("--share-gpus", help="Allow more --slots than GPUs: tasks then share GPUs.")
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads per task.")]
SentThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads per task; default: as submitted.")
]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", min=1, help="Seconds after which a task is killed.")
]
WhereOption = Annotated[
    str | None, typer.Option("--where", help="An SQL condition on the columns of the view.")
]

OfSweepOption = Annotated[
    str | None,
    typer.Option(
        "--sweep", help="Only the cells of this sweep, as last enqueued.", autocompletion=stored_sweeps
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database", help="postgresql+psycopg://USER@HOST/NAME or a DuckDB file; default: the store's."
    ),
]


def store_path(given: Path | None) -> Path:
    """--store, else $PRIVBENCH_STORE, else ./privbench-store."""
    return given or Path(os.environ.get("PRIVBENCH_STORE") or "privbench-store")


def database_url(given: str | None) -> str | None:
    """--database as a URL, so that a file's path is not taken for a store's."""
    if given is None or "://" in given:
        return given
    return f"duckdb:///{Path(given).absolute()}"


def source(store: Path | None, database: str | None) -> Path | str:
    """The source of rows: the given database, else the store."""
    from harness.store import Store

    return database_url(database) or Store.open(store_path(store)).path


def report_folder(out: Path | None, store: Path | None, database: str | None) -> Path:
    """--out, else reports/ in the store; ./reports for a database without a store."""
    from harness.store import Store

    if out is not None:
        return out
    return Path("reports") if database and store is None else Store.open(store_path(store)).reports


@dataclass(frozen=True)
class Asked:
    """The options that replace a sweep file: workloads, methods and attacks."""

    workload: str | None = None
    method: str | None = None
    epsilon: str | None = None
    models: int | None = None
    attack: str | None = None
    settings: list[str] | None = None
    n_train: int | None = None
    seed: int | None = None

    def __bool__(self) -> bool:
        """Whether any option was given."""
        return any(each is not None and each != [] for each in astuple(self))  # --seed 0 is one

    def refuse_beside_published(self) -> None:
        """SpecError for options that a published table decides."""
        decided = {
            "--workload": self.workload,
            "--method": self.method,
            "--epsilon": self.epsilon,
            "--attack": self.attack,
            "--n-train": self.n_train,
        }
        if given := [name for name, value in decided.items() if value is not None]:
            raise SpecError(
                f"the published table decides {', '.join(given)}: leave it out, and choose by --lines",
                field=given[0],
                allowed=("--lines", "--models", "--seed", "--set"),
            )


def choose_sweep(
    sweep: str | None, published: str | None, lines: str | None, small: bool
) -> "str | PublishedSweep | None":
    """The sweep that a command is about: a file or a name, or the lines of a published table."""
    if published is None:
        if lines is not None or small:
            name = "--small" if lines is None else "--lines"
            raise SpecError(f"{name} is of a published table: give --published TABLE as well", field=name)
        return sweep
    from harness.plan.published_sweep import PublishedSweep

    if sweep is not None:
        raise SpecError("give a sweep or --published, not both", field="sweep", value=sweep)
    return PublishedSweep(published, lines, small)


def settings_for(
    backend: str,
    profile: Path | None = None,
    slots: int | None = None,
    threads: int = 1,
    timeout: float | None = None,
    share_gpus: bool = False,
) -> "Settings":
    """How jobs are run; SpecError for an unknown backend or a wrong profile."""
    from harness.backends import family
    from harness.backends.base import Settings
    from harness.backends.profile import read_as

    kind = family.get(backend).Profile
    if profile is not None and kind is None:
        able = [name for name in family.names() if family.get(name).Profile is not None]
        raise SpecError(f"--profile is for --backend {' and '.join(able)}; --backend {backend} has none")
    asked = read_as(kind, profile) if profile is not None and kind is not None else None
    return Settings(slots, threads, timeout, profile=asked, share_gpus=share_gpus)
