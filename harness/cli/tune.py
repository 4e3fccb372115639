"""The command `tune`: equal searches for all methods, and the recipe that a run can name."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.backends import DEFAULT
from harness.cli import output
from harness.cli.options import (
    AcceptOption,
    Asked,
    BackendOption,
    EpsilonOption,
    JsonOption,
    MembersOption,
    MethodOption,
    ProfileOption,
    SetOption,
    ShareOption,
    SlotsOption,
    StoreOption,
    SweepArgument,
    ThreadsOption,
    TimeoutOption,
    WideOption,
    WorkloadOption,
    settings_for,
    store_path,
)
from harness.cli.sweeps import SUFFIX, follow, local_span
from workloads.errors import SpecError

if TYPE_CHECKING:
    from harness.backends.base import Settings
    from harness.backends.status import Progress
    from harness.plan.plan import Plan
    from harness.plan.sweep_file import Sweep
    from harness.plan.tune_table import TuneTable
    from harness.store import Store
    from harness.store.tunes import TuneRecord
    from harness.tuning.stages import Tune
    from harness.tuning.trials import Tell


def tune(
    sweep: SweepArgument = None,
    workload: WorkloadOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    settings: SetOption = None,
    n_train: MembersOption = None,
    trials: Annotated[
        int | None, typer.Option("--trials", min=1, help="Configurations per study (default 16).")
    ] = None,
    studies: Annotated[
        int | None,
        typer.Option("--studies", min=1, help="Searches with points and members of their own (default 3)."),
    ] = None,
    models: Annotated[
        int | None, typer.Option("--models", min=1, help="Models per configuration (default 1).")
    ] = None,
    confirm: Annotated[
        int | None,
        typer.Option(
            "--confirm", min=0, help="More models for the three best of each study (default 3; 0: none)."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the first study; default: 1000003 + the sweep's seed."),
    ] = None,
    max_gap: Annotated[
        float | None,
        typer.Option(
            "--max-gap",
            min=0,
            max=1,
            help="Choose among configurations at most this much better on members than on non-members; for "
            "methods without an epsilon.",
        ),
    ] = None,
    budget_epsilon: Annotated[
        float | None,
        typer.Option(
            "--budget-epsilon",
            min=0.01,
            help="Write a sweep whose search is part of the training and of its epsilon, and train nothing.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The file to write; default: beside the sweep, else in the store."),
    ] = None,
    backend: BackendOption = DEFAULT,
    profile: ProfileOption = None,
    slots: SlotsOption = None,
    share_gpus: ShareOption = False,
    threads: ThreadsOption = 1,
    timeout: TimeoutOption = None,
    dry: Annotated[bool, typer.Option("--dry", help="Show what it would do and cost, and stop.")] = False,
    accept_changed_code: AcceptOption = False,
    store: StoreOption = None,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Search every method's settings with the same budget, by accuracy on non-members; write a recipe.

    Exit code 1 if a trial ended in an error. One that diverged counts as accuracy 0. Ctrl-C stops it; the
    same command resumes it.
    """
    asked = Asked(workload, method, epsilon, None, None, settings, n_train)
    given = {"trials": trials, "studies": studies, "models": models, "confirm": confirm, "seed": seed}
    if budget_epsilon is not None:
        _write_priced(asked, {**given, "max_gap": max_gap}, budget_epsilon, sweep, out)
        return
    name, parsed, table = _read(sweep, asked, {**given, "max_gap": max_gap})
    how = settings_for(backend, profile, slots, threads, timeout, share_gpus)
    opened = _open(store)
    file = out or _default_out(sweep, opened, name)
    if out is not None:
        _refuse_no_folder(out)
    with _progress(json) as tell:
        made = _make(name, parsed, table, tell)
    first = _checked(made.plan(opened, confirming=False), opened, accept_changed_code)
    if dry:
        _show_plan(made, first, opened, json, wide)
        return
    from harness.store import Store
    from harness.store.files import write_atomic
    from harness.tuning.recipe_writer import recipe_text

    opened = Store.open(opened.path, create=True)
    progress = _train(made, first, opened, backend, how, json)
    if progress is not None and table.confirm:
        second = _checked(made.plan(opened, confirming=True), opened, accept_changed_code)
        progress = _train(made, second, opened, backend, how, json)
    if progress is None:
        raise typer.Exit(1)
    record, errors = _finish(made, opened)
    write_atomic(file, recipe_text(record).encode())
    _show(record, made, file, sweep or _options(asked), errors, json, wide)
    if errors:
        raise typer.Exit(1)


def _write_priced(
    asked: Asked, given: dict[str, Any], budget: float, sweep: str | None, out: Path | None
) -> None:
    """Write a sweep whose search is part of the training."""
    if sweep is not None or asked.epsilon is not None:
        raise SpecError(
            "--budget-epsilon is the epsilon of a search over one method's settings: give --workload and "
            "--method with it, and neither a sweep nor --epsilon",
            field="--budget-epsilon",
            value=budget,
        )
    from harness.store.files import write_atomic
    from harness.tuning.priced_search import find_selecting, priced_sweep
    from harness.tuning.searches import find_searches

    for method in asked.method.split(",") if asked.method else ():
        find_selecting()[1].over(method, 1)  # refuses what cannot be trained several times
    name, parsed, table = _read(None, replace(asked, epsilon=f"{budget!r}"), given)
    file = out or Path(f"{name}.priced.toml")
    _refuse_no_folder(file)
    found = find_searches(parsed, table).found
    text = priced_sweep(name, parsed.seed, found, table.trials, table.first_seed(parsed.seed))
    write_atomic(file, text.encode())
    output.say(f"written: {file}: {table.trials} candidates, and epsilon {budget:g} for the whole search")
    output.say(f"Run it: privbench run {file}")


def _refuse_no_folder(file: Path) -> None:
    if not file.parent.is_dir():
        raise SpecError(f"{file.parent} is no folder: give another --out", field="--out", value=file)


def _read(sweep: str | None, asked: Asked, given: dict[str, Any]) -> "tuple[str, Sweep, TuneTable]":
    """The name of the tune, the sweep, and how it is tuned; SpecError with all problems."""
    from harness.plan.given_names import by_method, find_unknown
    from harness.plan.sweep_file import find_sweep, from_options, listed, read_sweep
    from harness.plan.tune_table import TuneTable
    from harness.spec import key_of

    if sweep is None:
        content, name = by_method(from_options(**vars(asked))), "ad-hoc"
        # The same tune whatever the order of its methods, and with more trials or studies.
        grids = [
            {key: sorted(map(str, listed(each))) for key, each in grid.items()} for grid in content["grid"]
        ]
        content["name"] = f"ad-hoc-{key_of([sorted(map(key_of, grids)), given['seed']])[:8]}"
    elif asked:
        raise SpecError(
            "give a sweep, or --workload, --method and so on, not both: edit the file instead",
            field="sweep",
            value=sweep,
        )
    else:
        content, name = find_sweep(sweep)
        content.pop("recipe", None)  # what it is about to write
    parsed, problems = read_sweep(content, name)
    problems = [*problems, *find_unknown(replace(parsed, attacks=(), benches=()))]
    if problems:
        raise SpecError(problems)
    return parsed.name, parsed, (parsed.tune or TuneTable()).overridden(**given)


def _options(asked: Asked) -> str:
    """The options of a run of what was tuned."""
    named = {"workload": asked.workload, "method": asked.method, "epsilon": asked.epsilon}
    given = {**named, "n-train": asked.n_train}
    words = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join([*words, *(word for each in asked.settings or [] for word in ("--set", each))])


def _open(path: Path | None) -> "Store":
    from harness.store import Store

    opened = Store(store_path(path))
    opened.check(writable=True)
    return opened


@contextmanager
def _progress(json: bool) -> "Iterator[Tell]":
    """A bar for noise that is solved for, if there is any, on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("solving for noise"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=output.err, transient=True, disable=json)
    noise: list[Any] = []

    def tell(done: int, total: int) -> None:
        if not noise:
            bar.start()
            noise.append(bar.add_task("noise", total=total))
        bar.update(noise[0], completed=done)

    try:
        yield tell
    finally:
        bar.stop()


def _make(name: str, parsed: "Sweep", table: "TuneTable", tell: "Tell") -> "Tune":
    from harness.tuning.stages import make_tune

    made = make_tune(name, parsed, table, tell)
    for each in made.left_out:
        output.hint(f"{each} declares no parameter to search: it is not tuned")
    if table.trials & (table.trials - 1):
        output.hint(f"{table.trials} trials: a power of two spreads them evenly over every axis")
    return made


def _checked(made: "Plan", store: "Store", accept: bool) -> "Plan":
    from harness.plan.changes.changed import check_plan

    return check_plan(made, store, accept)


def _train(
    made: "Tune", planned: "Plan", store: "Store", backend: str, how: "Settings", json: bool
) -> "Progress | None":
    """Send a stage and watch it to its end; None if it did not end."""
    from harness.enqueue import enqueue
    from harness.store import RERUN_REASONS

    count = enqueue(planned, store, backend, how)
    console = output.err if json else output.out
    if not json:
        cells, tasks = len(planned.cells), len(planned.tasks)
        output.say(f"{made.sweep_name}: {cells} configurations, {tasks} trainings, {count} to run.")
        output.plan_warnings(planned)
    progress = follow(store, made.sweep_name, backend, "stop", console)
    killed = [each for each in progress.failures if each.reason in RERUN_REASONS]
    if progress.over and not killed:
        return progress
    if killed:
        output.troubles(progress)
    return None


def _finish(made: "Tune", store: "Store") -> "tuple[TuneRecord, list[str]]":
    """The record, written and collected; and why trials failed, other than by divergence."""
    from harness.results.collect import collect as gather
    from harness.store.tunes import write_tune
    from harness.tuning.stages import make_record

    found = made.results(store)
    record = make_record(made, found, store)
    write_tune(store, record)
    gather(store.path)
    return record, [why for each in found for trial in each.trials for why in trial.errors]


def _default_out(sweep: str | None, store: "Store", name: str) -> Path:
    """Beside the sweep's file, else in the store."""
    if sweep is not None and Path(sweep).is_file():
        return Path(sweep).with_suffix(SUFFIX)
    from harness.store.tunes import FOLDER

    return store.path / FOLDER / f"{name}.toml"


def _show_plan(made: "Tune", first: "Plan", store: "Store", json: bool, wide: bool) -> None:
    """What the first stage would do and cost; the second follows from its scores."""
    from harness.backends.gpus import usable
    from harness.plan.estimate import estimate
    from harness.tuning.choice import CONFIRMED

    here: Literal["cpu", "cuda"] = "cuda" if usable() else "cpu"
    cost = estimate(first, store, None, here, "a tune does not probe")
    output.plan(first, cost, local_span(first, cost), None, json, wide)
    more = min(CONFIRMED, made.table.trials) * made.table.confirm * made.table.studies * len(made.searches)
    if more and not json:
        output.prose(f"Then {more} trainings at most, of the best configurations of each study.")


def _show(
    record: "TuneRecord",
    made: "Tune",
    file: Path,
    again: str,
    errors: Sequence[str],
    json: bool,
    wide: bool,
) -> None:
    """Print what was found, by validation only, what to know about it, and how to use it."""
    from harness.cli.terminal.tune_text import print_tune
    from harness.tuning.recipe_writer import lacking

    if json:
        output.json_out({**record.model_dump(), "recipe": str(file)})
        return
    print_tune(record, wide=wide)
    for name in lacking(record):
        output.prose(f"{name}: no configuration can be chosen at some level, so it is not in the recipe")
    if errors:
        output.prose(f"{len(errors)} trainings failed and count as 0: privbench status {made.sweep_name}")
    output.say(f"written: {file}")
    output.say(f"Use it: privbench run {again} --recipe {file}")
