"""The output of the command line: tables, JSON, and errors on standard error."""

import json as jsonlib
from collections import Counter
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from harness.cli.terminal.fitting import PLAIN, FittedTable, Layout, cell_text
from workloads.errors import BenchError, SpecError

if TYPE_CHECKING:
    from harness.backends.base import SchedulerJob
    from harness.backends.causes import Cause
    from harness.backends.remaining import Remaining
    from harness.backends.schedule import LocalSpan, Schedule
    from harness.backends.status import Ended, Progress, Running
    from harness.checks.contract import Finding
    from harness.plan.attack_cost import Cost
    from harness.plan.estimate import Estimate
    from harness.plan.plan import Plan
    from harness.report.text_table import TextTable
    from harness.results.collect import Collected
    from harness.spec import Cell, Json

CELLS_SHOWN = 8
"""Cells of one cause that are listed, at most."""
out = Console()
if not out.is_terminal:
    out.width = 180  # a file or a pipe has no width; tables should not be wrapped there
err = Console(stderr=True)
RUNNING_LINES = 8
"""Running tasks that are shown, at most; --json has all."""


def say(text: str) -> None:
    """Print one line."""
    out.print(escape(text), highlight=False, soft_wrap=True)


def complain(error: BenchError) -> None:
    """Print an error, every problem on its own line."""
    problems = error.problems if isinstance(error, SpecError) else [str(error)]
    for problem in problems:
        err.print(f"[red]error:[/red] {escape(problem)}", highlight=False, soft_wrap=True)


def hint(text: str) -> None:
    """Print a remark on standard error, apart from what may be piped on."""
    err.print(f"[yellow]note:[/yellow] {escape(text)}", highlight=False, soft_wrap=True)


def json_out(content: Any) -> None:
    """Print JSON; an infinity is the string "inf"."""
    from harness.results.table import json_value

    typer.echo(jsonlib.dumps(json_value(content), indent=1, ensure_ascii=False))


cell = cell_text
"""One value for display."""


def table(
    rows: Sequence[dict[str, Any]],
    title: str | None = None,
    layout: Layout = PLAIN,
    wide: bool = False,
    rest: str = "--wide or --json shows all",
) -> FittedTable:
    """Rows that share their keys, as a table that fits the console; `rest` is where the whole of it is."""
    return FittedTable(rows, title, layout, wide, rest)


def print_table(
    rows: Sequence[dict[str, Any]],
    title: str | None = None,
    layout: Layout = PLAIN,
    wide: bool = False,
    rest: str = "--wide or --json shows all",
) -> Sequence[str]:
    """Print a table, with `wide` whole whatever the width of the terminal; return the columns left out."""
    drawn = table(rows, title, layout, wide, rest)
    out.print(drawn, crop=not wide)
    return drawn.fit(out.width).dropped


def prose(text: str) -> None:
    """Print a sentence: broken between words on a terminal, one line elsewhere."""
    out.print(escape(text), highlight=False, soft_wrap=not out.is_terminal)


def listing(rows: list[dict[str, Any]], json: bool, layout: Layout = PLAIN, wide: bool | None = None) -> None:
    """Rows as a table or as JSON; `wide` is None in a command without that option."""
    if json:
        json_out(rows)
    else:
        print_table(rows, layout=layout, wide=bool(wide), rest=_rest(wide))


def _rest(wide: bool | None) -> str:
    return "--json shows all" if wide is None else "--wide or --json shows all"


def page(content: dict[str, Any], json: bool, layout: Layout = PLAIN, wide: bool | None = None) -> None:
    """One member: its facts, then its tables."""
    if json:
        json_out(content)
        return
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print_table(value, key, layout, bool(wide), _rest(wide))
        elif isinstance(value, list):
            for each in value:
                prose(f"{key}: {each}")
        elif "\n" in str(value):
            say(str(value))
        else:
            prose(f"{key}: {value}")


REPRODUCED = Layout(
    group="workload",
    drop=("printed", "about", "numbers", "not measured"),
    keep=("table", "method", "figure", "paper", "ours", "difference", "lines", "runnable", "run"),
)


BASELINES = Layout(
    group="workload",
    drop=("data", "line"),
    keep=("cell", "accuracy", "published", "difference", "finding"),
    one_line=True,
)


def text_table(found: "TextTable", layout: Layout, wide: bool, rest: str) -> None:
    """Print a report that draws nothing, with its remarks."""
    from harness.report.text_table import chosen_part

    part = chosen_part(found)
    rows = [dict(zip(part.columns, row, strict=True)) for row in part.rows]
    print_table(rows, found.title, layout, wide, rest)
    prose(found.counts)
    for number, text in enumerate(found.remarks, 1):
        prose(f"[{number}] {text}")
    for text in found.protocol:
        prose(f"- {text}")


PLANNED = Layout(
    group="workload",
    drop=("cell", "solved", "estimate", "value", "cached"),
    keep=("method", "tasks", "s / training"),
    one_line=True,
)
SWEEPS = Layout(
    drop=("protocol", "backend", "queued", "cells_done", "cells", "waiting"),
    keep=("sweep", "tasks", "done", "failed", "running"),
    one_line=True,
)


def plan(
    made: "Plan",
    cost: "Estimate",
    here: "LocalSpan | None",
    schedule: "Schedule | None",
    json: bool,
    wide: bool = False,
) -> None:
    """Print cells, tasks, cached ones, the cost of the rest, and the time here and on a cluster."""
    from harness.spec import distinct_labels

    kinds = Counter(task.kind for task in made.tasks)
    content: dict[str, Any] = {
        "sweep": made.sweep.name,
        "cells": len(made.cells),
        "tasks": len(made.tasks),
        "trainings": kinds["train"],
        "attacks": kinds["attack"],
        "benches": kinds["bench"],
        "cached": len(made.done),
        "failed": len(made.failed),
        "to_run": len(made.todo),
        "purged": len(made.purged),
        **_estimate_row(cost, here),
    }
    tasks = Counter(task.cell_key for task in made.tasks)
    cached = Counter(task.cell_key for task in made.tasks if task.key in made.done)
    labels, solved = distinct_labels(made.cells), made.solved
    open_cells = {task.cell.key for task in made.todo if task.kind == "train"}
    rows = [
        {
            **_plan_row(each, labels[each.key], solved.get(each.key), tasks[each.key], cached[each.key]),
            **_cost_columns(cost.costs.get(each.key), each.key in open_cells),
        }
        for each in made.cells
    ]
    if json:
        simulated = {"schedule": vars(schedule)} if schedule else {}
        told = {"remarks": made.remarks, "warnings": made.warnings}
        json_out({**content, **simulated, **told, "cells_planned": rows})
        return
    print_table(rows, f"sweep {made.sweep.name}", PLANNED, wide)
    benches = f", {kinds['bench']} benches" if kinds["bench"] else ""
    say(
        f"{content['cells']} cells, {kinds['train']} trainings, {kinds['attack']} attacks{benches}; "
        f"{content['cached']} cached, {content['failed']} failed before, {content['to_run']} to run."
    )
    if made.todo:
        _estimate_lines(made, cost, here)
    if schedule:
        say(
            f"On {schedule.slots} GPUs about {_span(schedule.makespan_seconds)} in {schedule.jobs} jobs, "
            f"{schedule.idle_share:.0%} idle; the longest chain of tasks takes "
            f"{_span(schedule.critical_path_seconds)}."
        )
    if made.purged:
        say(f"{len(made.purged)} trainings are rerun: new attacks need their models, which were purged.")
    if made.failed:
        say(f"Failed tasks are rerun only on request: privbench retry {made.sweep.name}")
    plan_warnings(made)


def _estimate_row(cost: "Estimate", here: "LocalSpan | None") -> dict[str, Any]:
    """The estimate as JSON; `hours` and `hours_here` are null unless the cost of every task is known."""
    from harness.plan.estimate import START_SECONDS

    hours = (cost.seconds + START_SECONDS) / 3600 if cost.by_task else 0.0
    return {
        "hours": hours if cost.complete else None,
        "hours_known": hours,
        "slots": here.slots if here else None,
        "hours_here": here.seconds / 3600 if here and cost.complete else None,
        "memory_gib": cost.memory_bytes / 2**30 if cost.costs else None,
        "unknown": [{"tasks": len(keys), "reason": reason} for reason, keys in cost.unknown.items()],
    }


def _estimate_lines(made: "Plan", cost: "Estimate", here: "LocalSpan | None") -> None:
    """Print the time on one slot and on those of this machine, and what is not counted and why."""
    from harness.plan.estimate import START_SECONDS

    if cost.by_task and not (cost.unknown and not cost.costs):
        single = f"{_span(cost.seconds + START_SECONDS)} on one slot"
        several = f"About {_span(here.seconds)} on the {here.slots} slots of this machine, " if here else ""
        memory = f"{cost.memory_bytes / 2**30:.2f} GiB a training at most" if cost.costs else "no training"
        alone = here is None or here.slots == 1
        say(f"About {single}; {memory}." if alone else f"{several}{single}; {memory}.")
    cells = {task.key: task.cell for task in made.todo}
    for reason, keys in cost.unknown.items():
        kinds = dict.fromkeys(f"{cells[key].workload.name}, {cells[key].method.name}" for key in keys)
        say(f"Not counted: {len(keys)} trainings ({'; '.join(kinds)}): {reason}.")


COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}


def finding(number: int, count: int, found: "Finding") -> None:
    """One line per check; below it what was found, what is demanded and what to do, if it does not hold."""
    state = "FAILED" if found.state == "failed" else found.state
    colour = COLOURS[found.state]
    head = f"{number:>2}/{count} [{colour}]{state:<7}[/{colour}] {escape(found.check)}"
    out.print(f"{head} ({found.seconds:.1f} s)" if found.seconds >= 1 else head, highlight=False)
    failed = found.state == "failed"
    lines = {"found": found.found, "demanded": found.demand if failed else None, "do": found.advice}
    for name, text in lines.items():
        if text:
            out.print(
                Padding(escape(f"{name}: {text}" if failed else text), (0, 0, 0, 6), expand=False),
                highlight=False,
            )


def plan_warnings(made: "Plan") -> None:
    """Print the remarks of a plan, and its warnings in yellow; those alike in all but numbers once."""
    from harness.backends.causes import group_texts

    for remark in made.remarks:
        hint(remark)
    for text, alike in group_texts({text: [text] for text in made.warnings}).items():
        more = f" ({len(alike) - 1} more like it)" if len(alike) > 1 else ""
        err.print(f"[yellow]warning:[/yellow] {escape(text + more)}", highlight=False, soft_wrap=True)


def _span(seconds: float) -> str:
    """A duration for display."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{seconds / 60:.1f} minutes"


def _plan_row(each: "Cell", label: str, solved: str | None, tasks: int, cached: int) -> dict[str, Any]:
    return {
        "cell": each.key[:12],
        "workload": each.workload.name,
        "method": label,
        "solved": solved,
        "value": each.params.get(solved) if solved else None,
        "tasks": tasks,
        "cached": cached,
    }


def _cost_columns(training: "Cost | None", trains: bool) -> dict[str, Any]:
    """The cost of one training of a cell and its source; why it is unknown stands below the table."""
    if training is not None:
        return {"s / training": training.seconds, "estimate": training.source}
    return {"s / training": None, "estimate": "unknown, see below" if trains else "nothing to train"}


def status(
    supervisor: "Json", sweeps: "list[Progress]", detailed: bool, json: bool, wide: bool = False
) -> None:
    """Print counts per sweep; with `detailed` also running and failed tasks."""
    from harness.backends.causes import group_failures
    from harness.spec import PROTOCOL

    rows = [each.summary() for each in sweeps]
    if json:
        details = [
            {
                **each.summary(),
                "running_tasks": [vars(task) for task in each.running],
                "failures": [failure_row(failed) for failed in each.failures],
                "causes": [cause.row() for cause in group_failures(each.store, each.failures)],
                "warnings": each.warnings,
                "alarms": each.alarms,
                "scheduler": scheduler_rows(each.standing.jobs),
            }
            for each in sweeps
        ]
        json_out({"supervisor": supervisor, "sweeps": details if detailed else rows})
        return
    if not rows:
        say("no sweep was enqueued in this store")
        return
    print_table([_status_row(row) for row in rows], layout=SWEEPS, wide=wide)
    for each in sweeps:
        _running_lines(each)
        if each.protocol not in (None, PROTOCOL):
            say(
                f"{each.name} was measured under protocol {each.protocol}, not {PROTOCOL}: its rows are kept "
                "separate. Enqueue it again to remeasure."
            )
    for line in dict.fromkeys(line for each in sweeps for line in each.standing.lines):
        say(line)
    for each in sweeps:
        if detailed:
            troubles(each)
        elif each.failures:
            say(f"Why tasks of {each.name} failed: privbench status {each.name}{store_option(each)}")


def _status_row(row: dict[str, Any]) -> dict[str, Any]:
    """A sweep's counts for the table; the time left is in words below it."""
    return {name: value for name, value in row.items() if name != "remaining_seconds"}


def _running_lines(sweep: "Progress") -> None:
    """Print what runs, for how long, and how long it and the sweep will take."""
    if sweep.over:
        return
    say(f"{sweep.name}: {time_left(sweep.remaining)}")
    for task in sweep.running[:RUNNING_LINES]:
        say(f"  {task.key[:12]} {running_text(task)}")
    if len(sweep.running) > RUNNING_LINES:
        say(f"  and {len(sweep.running) - RUNNING_LINES} more tasks run")


def time_left(left: "Remaining") -> str:
    """The time until a sweep has ended, or why it is unknown."""
    return f"about {_span(left.seconds)} left" if left.seconds is not None else f"time left: {left.reason}"


def running_text(task: "Running") -> str:
    """A running task: what it does, its phase, for how long, and its time left."""
    epochs = f" ({task.epochs:.3g} epochs)" if task.epochs is not None else ""
    steps = f", {task.phase} {task.done}/{task.total}{epochs}" if task.total else ""
    spent = f", for {_span(task.seconds)}" if task.seconds is not None else ""
    left = f", {_span(task.remaining_seconds)} left" if task.remaining_seconds is not None else ""
    return f"{task.what}{steps}{spent}{left}"


def scheduler_rows(jobs: "Sequence[SchedulerJob] | None") -> list[dict[str, Any]] | None:
    """A scheduler's jobs as JSON; None if no scheduler has responded."""
    return None if jobs is None else [vars(job) for job in jobs]


def failure_row(failed: "Ended") -> dict[str, Any]:
    """A failed task as a row."""
    return {"key": failed.key, "kind": failed.kind, "reason": failed.reason, "message": failed.message}


def troubles(progress: "Progress") -> None:
    """Print the warnings, alarms and failures of a sweep."""
    from harness.backends.causes import group_failures

    warnings(progress.warnings)
    alarms(progress.alarms)
    failures(group_failures(progress.store, progress.failures), progress.name, store_option(progress))


def store_option(progress: "Progress") -> str:
    """` --store PATH` for a command on this sweep's store; empty for the default store."""
    from harness.cli.options import store_path

    path = progress.store.path
    return "" if path.absolute() == store_path(None).absolute() else f" --store {quote(str(path))}"


def warnings(texts: "dict[str, list[str]]") -> None:
    """Print the warnings of tasks: those alike in all but numbers once, with the number of tasks."""
    from harness.backends.causes import group_texts

    for text, keys in group_texts(texts).items():
        count = f"{len(keys)} tasks, first " if len(keys) > 1 else ""
        prose(f"warning ({count}{keys[0][:12]}): {text}")


def alarms(texts: "dict[str, str]") -> None:
    """Print alarms of audits, in red."""
    for label, text in texts.items():
        out.print(f"ALARM: {label}: {text}", style="bold red", markup=False, highlight=False)


def failures(causes: "Sequence[Cause]", sweep: str, store: str = "") -> None:
    """Print failures by cause: what happened, to which cells, and where to look."""
    for cause in causes:
        count = f"{len(cause.keys)} tasks" if len(cause.keys) > 1 else "1 task"
        prose(f"{count} failed: {cause.reason}: {cause.message}")
        for workload in dict.fromkeys(workload for workload, _ in cause.cells):
            own = {label: each for (name, label), each in cause.cells.items() if name == workload}
            shown = [f"{label} ({each})" for label, each in list(own.items())[:CELLS_SHOWN]]
            more = [f"{len(own) - CELLS_SHOWN} more"] * (len(own) > CELLS_SHOWN)
            prose(f"  {workload}: {', '.join([*shown, *more])}")
        say(f"  privbench logs {cause.example[:12]}{store}")
    if causes:
        say(f"Rerun: privbench retry {sweep}{store}")


def collected(summary: "Collected", json: bool) -> None:
    """Print the outcome of a collection."""
    content = {key: value for key, value in vars(summary).items() if isinstance(value, int | float)}
    if json:
        json_out(content)
    else:
        say(", ".join(f"{key} {cell_text(value)}" for key, value in content.items()))
