"""Commands for sweeps: quickstart, plan, enqueue, run, status, logs, retry, cancel."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.backends import DEFAULT
from harness.cli import output
from harness.cli.options import (
    AcceptOption,
    Asked,
    AttackOption,
    BackendOption,
    EpsilonOption,
    JsonOption,
    LinesOption,
    MembersOption,
    MethodOption,
    ModelsOption,
    ProfileOption,
    PublishedOption,
    RecipeOption,
    SeedOption,
    SentOption,
    SentThreadsOption,
    SetOption,
    ShareOption,
    SlotsOption,
    SmallOption,
    StoredSweepArgument,
    StoreOption,
    SweepArgument,
    ThreadsOption,
    TimeoutOption,
    UntunedOption,
    WideOption,
    WorkloadOption,
    choose_sweep,
    settings_for,
    store_path,
    stored_sweeps,
    task_keys,
)
from workloads.errors import SpecError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.backends.base import Settings
    from harness.backends.schedule import LocalSpan
    from harness.backends.status import Progress
    from harness.plan.estimate import Estimate, Usual
    from harness.plan.plan import Plan
    from harness.plan.published_sweep import PublishedSweep
    from harness.spec import Task
    from harness.store import Store


NEXT = (
    'Next: your own data. A workload has twenty lines: see "Your own data" in the README. Then: '
    "privbench run --workload NAME --method sgd,dp-sgd --epsilon 1,8 --attack lira"
)
"""The last line of the quickstart."""
SUFFIX = ".tuned.toml"
"""Of the recipe of a sweep that was tuned."""


def quickstart(store: StoreOption = None, slots: SlotsOption = None, wide: WideOption = False) -> None:
    """Run the sweep `quickstart` on embedded data and write a report: minutes on two cores."""
    from harness.backends.base import Settings

    progress = run_sweep("quickstart", store, Asked(), Settings(slots), wide=wide)
    if progress.over:
        from harness.report import write_all

        files = write_all(progress.store.path, progress.store.reports)
        output.say(f"report: {next(file for file in files if file.suffix == '.html')}")
        output.prose(NEXT)
    exit_by(progress)


def plan(
    sweep: SweepArgument = None,
    workload: WorkloadOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    models: ModelsOption = None,
    attack: AttackOption = None,
    settings: SetOption = None,
    n_train: MembersOption = None,
    seed: SeedOption = None,
    recipe: RecipeOption = None,
    untuned: UntunedOption = False,
    published: PublishedOption = None,
    lines: LinesOption = None,
    small: SmallOption = False,
    store: StoreOption = None,
    probe: Annotated[bool, typer.Option(help="Time a few steps if no times were recorded.")] = True,
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(
            "--device", help="Estimate by times recorded on this kind of device; default: this machine's."
        ),
    ] = None,
    cluster: Annotated[
        int | None, typer.Option("--cluster", min=1, help="Simulate the schedule on this many GPUs.")
    ] = None,
    accept_changed_code: AcceptOption = False,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Show what a sweep would do and cost: cells, tasks, cached tasks, hours, memory. Submits nothing."""
    from harness.backends.gpus import usable
    from harness.backends.schedule import simulate
    from harness.enqueue import jobs_of
    from harness.plan.estimate import estimate
    from harness.store import Store

    opened = Store(store_path(store))
    opened.check()
    asked = Asked(workload, method, epsilon, models, attack, settings, n_train, seed)
    chosen = choose_sweep(sweep, published, lines, small)
    made = _plan(chosen, opened, asked, accept_changed_code, Over(recipe, untuned))
    here: Literal["cpu", "cuda"] = "cuda" if usable() else "cpu"
    wanted = device or here
    probing = _probe if probe and wanted == here else None
    unprobed = f"only {here} can be probed here" if probe else "--no-probe was given"
    cost = estimate(made, opened, probing, wanted, unprobed)
    if cluster is not None and not cost.by_task and made.todo:
        raise SpecError("--cluster needs times: no similar run was recorded, and none can be probed here")
    schedule = simulate(jobs_of(made.todo, cost.tasks()), cluster) if cluster else None
    span = local_span(made, cost) if wanted == here else None
    output.plan(made, cost, span, schedule, json, wide)


def local_span(made: "Plan", cost: "Estimate") -> "LocalSpan":
    """The run time of the tasks of known cost on this machine's slots."""
    from harness.backends.base import Settings
    from harness.backends.gpus import placed
    from harness.backends.machine.workers import slots
    from harness.backends.schedule import LocalSpan, makespan
    from harness.enqueue import jobs_of

    known = [task for task in made.todo if task.key in cost.by_task]
    settings = placed(Settings())
    count = slots(settings, on_gpu=bool(settings.gpus))
    return LocalSpan(count, makespan(jobs_of(known, cost.tasks()), count))


def _probe(task: "Task") -> "Usual":
    from harness.jobs.probe import probe  # imports torch, not needed with recorded times

    return probe(task)


def enqueue(
    sweep: SweepArgument = None,
    backend: BackendOption = DEFAULT,
    profile: ProfileOption = None,
    slots: SlotsOption = None,
    share_gpus: ShareOption = False,
    threads: ThreadsOption = 1,
    timeout: TimeoutOption = None,
    workload: WorkloadOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    models: ModelsOption = None,
    attack: AttackOption = None,
    settings: SetOption = None,
    n_train: MembersOption = None,
    seed: SeedOption = None,
    recipe: RecipeOption = None,
    untuned: UntunedOption = False,
    published: PublishedOption = None,
    lines: LinesOption = None,
    small: SmallOption = False,
    accept_changed_code: AcceptOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Submit a sweep's open tasks to a backend and return at once; `status` shows their progress."""
    asked = Asked(workload, method, epsilon, models, attack, settings, n_train, seed)
    chosen = choose_sweep(sweep, published, lines, small)
    how = settings_for(backend, profile, slots, threads, timeout, share_gpus)
    over = Over(recipe, untuned)
    opened, made, count = _send(chosen, store, backend, how, asked, accept_changed_code, over)
    if json:
        counts = {"sent": count, "tasks": len(made.tasks), "warnings": made.warnings}
        output.json_out({"sweep": made.sweep.name, **counts})
    else:
        output.plan_warnings(made)
        output.say(
            f"{count} of {len(made.tasks)} tasks submitted to {backend}; {len(made.done)} are done already."
        )
        output.say(f"See `privbench status {made.sweep.name} --store {opened.path}`.")


def run(
    sweep: SweepArgument = None,
    backend: BackendOption = DEFAULT,
    profile: ProfileOption = None,
    slots: SlotsOption = None,
    share_gpus: ShareOption = False,
    threads: ThreadsOption = 1,
    timeout: TimeoutOption = None,
    workload: WorkloadOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    models: ModelsOption = None,
    attack: AttackOption = None,
    settings: SetOption = None,
    n_train: MembersOption = None,
    seed: SeedOption = None,
    recipe: RecipeOption = None,
    untuned: UntunedOption = False,
    published: PublishedOption = None,
    lines: LinesOption = None,
    small: SmallOption = False,
    accept_changed_code: AcceptOption = False,
    on_interrupt: Annotated[
        Literal["stop", "detach"],
        typer.Option(help="Ctrl-C: stop the sweep (resumable), or leave it running."),
    ] = "stop",
    store: StoreOption = None,
    wide: WideOption = False,
) -> None:
    """Enqueue a sweep, watch it, collect, and print its frontier. Ctrl-C once stops it cleanly.

    Exit code 1 if a task failed or is unfinished, or if an audit proved more than the priced epsilon.
    """
    asked = Asked(workload, method, epsilon, models, attack, settings, n_train, seed)
    chosen = choose_sweep(sweep, published, lines, small)
    how = settings_for(backend, profile, slots, threads, timeout, share_gpus)
    over = Over(recipe, untuned)
    exit_by(run_sweep(chosen, store, asked, how, backend, on_interrupt, wide, accept_changed_code, over))


def run_sweep(
    sweep: "str | PublishedSweep | None",
    store: Path | None,
    asked: Asked,
    settings: "Settings",
    backend: str = DEFAULT,
    on_interrupt: str = "stop",
    wide: bool = False,
    accept: bool = False,
    over: "Over | None" = None,
) -> "Progress":
    """Enqueue, watch, collect and print; return how it ended."""
    opened, made, count = _send(sweep, store, backend, settings, asked, accept, over)
    from harness.cli import summary
    from harness.cli.bench import show
    from harness.plan.published_sweep import PublishedSweep
    from harness.results.collect import collect as gather

    name = made.sweep.name
    output.say(f"{name}: {len(made.cells)} cells, {len(made.tasks)} tasks, {count} to run.")
    output.plan_warnings(made)
    progress = follow(opened, name, backend, on_interrupt, output.out)
    gather(opened.path)
    if made.cells:
        summary.frontier(opened, made.cells, wide)
    if isinstance(sweep, PublishedSweep):
        summary.published(opened, made.cells, sweep.table, wide)
    for task in made.tasks:
        if task.kind == "bench" and (result := opened.result(task.key)) is not None and result.done:
            show(task.key, result.bench.bench, wide)
    output.troubles(progress)
    return progress


def exit_by(progress: "Progress") -> None:
    """Exit code 1 if a task failed or is unfinished, or if an audit raised an alarm."""
    if progress.failures or progress.alarms or not progress.over:
        raise typer.Exit(1)


def follow(store: "Store", name: str, backend: str, on_interrupt: str, console: "Console") -> "Progress":
    """Watch a sweep to its end, or until Ctrl-C, which stops it or leaves it running."""
    from harness.backends import family
    from harness.cli.terminal.watch import ctrl_c, watch

    with ctrl_c() as interrupted:
        progress = watch(store, name, console, interrupted)
        if interrupted() and on_interrupt == "stop":
            family.get(backend).stop(store, name, cancel=False)
            console.print("Stopped: nothing new starts, running tasks save their state. Run again to resume.")
        elif interrupted():
            console.print(f"Detached: the sweep keeps running. See `privbench status {name}`.")
    return progress


def status(
    sweep: StoredSweepArgument = None,
    watching: Annotated[bool, typer.Option("--watch", help="Stay and show live progress.")] = False,
    store: StoreOption = None,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Show the progress of sweeps, running tasks and failures by cause.

    Exit code 1 if an audit of the given sweep raised an alarm.
    """
    from harness.backends.machine.queue import supervisor_summary
    from harness.backends.status import Progress
    from harness.cli.terminal.watch import ctrl_c, watch
    from harness.store import Store

    opened = Store.open(store_path(store))
    names = [sweep] if sweep else opened.sweep_names()
    if watching and names:
        with ctrl_c() as interrupted:
            for name in names:
                watch(opened, name, output.out, interrupted)
    found = [Progress.of(opened, name) for name in names]
    output.status(supervisor_summary(opened), found, detailed=sweep is not None, json=json, wide=wide)
    if sweep is not None and any(each.alarms for each in found):
        raise typer.Exit(1)


def logs(
    task: Annotated[str, typer.Argument(help="A task's key, or its first digits.", autocompletion=task_keys)],
    store: StoreOption = None,
) -> None:
    """Print what a task printed, and its traceback if it failed."""
    from harness.store import Store

    opened = Store.open(store_path(store))
    log = opened.folder(opened.find(task)) / "log.txt"
    typer.echo(log.read_text(errors="replace") if log.exists() else "no output yet", nl=False)


def retry(
    sweep: StoredSweepArgument = None,
    backend: SentOption = None,
    profile: ProfileOption = None,
    slots: SlotsOption = None,
    share_gpus: ShareOption = False,
    threads: SentThreadsOption = None,
    timeout: TimeoutOption = None,
    accept_changed_code: AcceptOption = False,
    store: StoreOption = None,
) -> None:
    """Rerun the failed tasks, with their original settings unless the options change them.

    The old reasons stay in the tasks' folders.
    """
    from harness.backends.sent import sent_backend, sent_settings
    from harness.enqueue import resend
    from harness.store import Store

    opened = Store.open(store_path(store))
    for name in [sweep] if sweep else opened.sweep_names():
        sent = opened.sweep(name)
        chosen = backend or sent_backend(sent)
        before = sent_settings(sent, chosen)
        limit = timeout or before.timeout_seconds
        share = share_gpus or before.share_gpus
        how = settings_for(chosen, profile, slots or before.slots, threads or before.threads, limit, share)
        if profile is None:
            how = replace(how, profile=before.profile)
        count = resend(opened, name, chosen, how, accept_changed_code)
        output.say(f"{name}: {count} tasks resubmitted.")


def cancel(
    sweep: Annotated[str, typer.Argument(help="A sweep's name.", autocompletion=stored_sweeps)],
    backend: SentOption = None,
    store: StoreOption = None,
) -> None:
    """Stop a sweep; every unfinished task ends as `cancelled`. Enqueue it again to resume."""
    from harness.backends import family
    from harness.backends.sent import sent_backend
    from harness.store import Store

    opened = Store.open(store_path(store))
    chosen = backend or sent_backend(opened.sweep(sweep))
    family.get(chosen).stop(opened, sweep, cancel=True)
    output.say(f"{sweep}: cancelling. See `privbench status {sweep}`.")


@dataclass(frozen=True)
class Over:
    """What is laid over the workloads' recipes."""

    recipe: Path | None = None
    untuned: bool = False
    """Whether nothing is, although the sweep is to be tuned."""


def _plan(
    sweep: "str | PublishedSweep | None",
    store: "Store",
    asked: Asked,
    accept: bool,
    over: Over | None = None,
) -> "Plan":
    """Plan a sweep; SpecError if code or data changed since its tasks were done, unless accepted."""
    from harness.plan.changes.changed import check_plan
    from harness.plan.given_names import by_method
    from harness.plan.plan import make_plan
    from harness.plan.published_sweep import derive
    from harness.plan.sweep_file import find_sweep, from_options, read_sweep

    remarks: tuple[str, ...] = ()
    if sweep is None:
        data, name = by_method(from_options(**vars(asked))), "ad-hoc"
    elif not isinstance(sweep, str):
        asked.refuse_beside_published()
        derived = derive(sweep, asked.models, asked.seed, asked.settings or [])
        data, name, remarks = derived.content, sweep.table, derived.remarks
    else:
        if asked:
            raise SpecError(
                "give a sweep, or --workload, --method, --attack and so on, not both: edit the file instead",
                field="sweep",
                value=sweep,
            )
        data, name = find_sweep(sweep)
    over = over or Over()
    if over.recipe is not None:
        data = {**data, "recipe": str(over.recipe)}
    elif "tune" in data and "recipe" not in data and not over.untuned:
        tuned = Path(str(sweep)).with_suffix(SUFFIX)
        raise SpecError(
            f'this sweep is to be tuned: run "privbench tune {sweep}", then give recipe = "{tuned.name}" '
            "(or --untuned)",
            field="recipe",
            value=None,
            allowed=str(tuned),
        )
    made = replace(make_plan(*read_sweep(data, name), store), remarks=remarks)
    return check_plan(made, store, accept)


def _send(
    sweep: "str | PublishedSweep | None",
    store: Path | None,
    backend: str,
    settings: "Settings",
    asked: Asked,
    accept: bool,
    over: Over | None = None,
) -> "tuple[Store, Plan, int]":
    """Plan, and only if the plan is valid open the store and submit."""
    from harness.enqueue import enqueue as send
    from harness.enqueue import refuse_absent_data
    from harness.store import Store

    opened = Store(store_path(store))
    opened.check(writable=True)
    made = _plan(sweep, opened, asked, accept, over)
    refuse_absent_data(made, backend)
    opened = Store.open(opened.path, create=True)
    return opened, made, send(made, opened, backend, settings)
