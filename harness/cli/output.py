"""The output of the command line: tables, JSON, and errors on standard error."""

import json as jsonlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workloads.errors import BenchError, SpecError

if TYPE_CHECKING:
    from harness.backends.base import SchedulerJob
    from harness.backends.schedule import Schedule
    from harness.backends.status import Ended, Progress
    from harness.plan.estimate import Estimate
    from harness.plan.plan import Plan
    from harness.results.collect import Collected
    from harness.spec import Cell, Json

out = Console()
if not out.is_terminal:
    out.width = 180  # a file or a pipe has no width; tables should not be wrapped there
err = Console(stderr=True)


def say(text: str) -> None:
    """Print one line."""
    out.print(escape(text), highlight=False, soft_wrap=True)


def complain(error: BenchError) -> None:
    """Print an error, every problem on its own line."""
    problems = error.problems if isinstance(error, SpecError) else [str(error)]
    for problem in problems:
        err.print(f"[red]error:[/red] {escape(problem)}", highlight=False, soft_wrap=True)


def json_out(content: Any) -> None:
    """Print JSON; an infinity is the string "inf"."""
    from harness.results.table import json_value

    typer.echo(jsonlib.dumps(json_value(content), indent=1, ensure_ascii=False))


def table(rows: Sequence[dict[str, Any]], title: str | None = None) -> Table:
    """A Rich table of rows that share their keys."""
    drawn = Table(title=title, title_justify="left", header_style="bold")
    for column in rows[0] if rows else ():
        right = all(isinstance(row[column], int | float) for row in rows)
        drawn.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(cell(value)) for value in row.values()))
    return drawn


def cell(value: Any) -> str:
    """One value for display."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def listing(rows: list[dict[str, Any]], json: bool) -> None:
    """Rows as a table or as JSON."""
    if json:
        json_out(rows)
    else:
        out.print(table(rows))


def page(content: dict[str, Any], json: bool) -> None:
    """One member: its facts, then its tables."""
    if json:
        json_out(content)
        return
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            out.print(table(value, title=key))
        elif isinstance(value, list):
            for each in value:
                say(f"{key}: {each}")
        elif "\n" in str(value):
            say(str(value))
        else:
            say(f"{key}: {value}")


def plan(made: "Plan", cost: "Estimate | None", schedule: "Schedule | None", json: bool) -> None:
    """Print cells, tasks, cached ones, the cost of the rest, and the time on a cluster."""
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
        "hours": cost.seconds / 3600 if cost else None,
        "memory_gib": cost.memory_bytes / 2**30 if cost else None,
    }
    tasks = Counter(task.cell_key for task in made.tasks)
    cached = Counter(task.cell_key for task in made.tasks if task.key in made.done)
    labels, solved = distinct_labels(made.cells), made.solved
    rows = [
        _plan_row(each, labels[each.key], solved.get(each.key), tasks[each.key], cached[each.key], cost)
        for each in made.cells
    ]
    if json:
        simulated = {"schedule": vars(schedule)} if schedule else {}
        json_out({**content, **simulated, "warnings": made.warnings, "cells_planned": rows})
        return
    out.print(table(rows, title=f"sweep {made.sweep.name}"))
    benches = f", {kinds['bench']} benches" if kinds["bench"] else ""
    say(
        f"{content['cells']} cells, {kinds['train']} trainings, {kinds['attack']} attacks{benches}; "
        f"{content['cached']} cached, {content['failed']} failed before, {content['to_run']} to run."
    )
    if cost and made.todo:
        minutes = cost.seconds / 60
        say(f"About {minutes:.1f} minutes on one slot, {content['memory_gib']:.2f} GiB a task at most.")
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


def plan_warnings(made: "Plan") -> None:
    """Print the warnings of a plan, in yellow on standard error."""
    for text in made.warnings:
        err.print(f"[yellow]warning:[/yellow] {escape(text)}", highlight=False, soft_wrap=True)


def _span(seconds: float) -> str:
    """A duration for display."""
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{seconds / 60:.1f} minutes"


def _plan_row(
    each: "Cell", label: str, solved: str | None, tasks: int, cached: int, cost: "Estimate | None"
) -> dict[str, Any]:
    training = cost.costs.get(each.key) if cost else None
    return {
        "cell": each.key[:12],
        "workload": each.workload.name,
        "method": label,
        "solved": solved,
        "value": each.params.get(solved) if solved else None,
        "tasks": tasks,
        "cached": cached,
        "s / training": training.seconds if training else None,
        "estimate": training.source if training else None,
    }


def status(supervisor: "Json", sweeps: "list[Progress]", detailed: bool, json: bool) -> None:
    """Print counts per sweep; with `detailed` also running and failed tasks."""
    from harness.spec import PROTOCOL

    rows = [each.summary() for each in sweeps]
    if json:
        details = [
            {
                **each.summary(),
                "running_tasks": [vars(task) for task in each.running],
                "failures": [failure_row(failed) for failed in each.failures],
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
    out.print(table(rows))
    for each in sweeps:
        if each.protocol not in (None, PROTOCOL):
            say(
                f"{each.name} was measured under protocol {each.protocol}, not {PROTOCOL}: its rows are kept "
                "separate. Enqueue it again to remeasure."
            )
    for line in dict.fromkeys(line for each in sweeps for line in each.standing.lines):
        say(line)
    for each in sweeps if detailed else ():
        for task in each.running:
            say(f"{task.key[:12]} {task.label} {task.phase} {task.done}/{task.total}")
        warnings(each.warnings)
        alarms(each.alarms)
        failures(each.failures)


def scheduler_rows(jobs: "Sequence[SchedulerJob] | None") -> list[dict[str, Any]] | None:
    """A scheduler's jobs as JSON; None if no scheduler has responded."""
    return None if jobs is None else [vars(job) for job in jobs]


def failure_row(failed: "Ended") -> dict[str, Any]:
    """A failed task as a row."""
    return {"key": failed.key, "kind": failed.kind, "reason": failed.reason, "message": failed.message}


def warnings(texts: "dict[str, list[str]]") -> None:
    """Print the warnings of tasks, each text once."""
    for text, keys in texts.items():
        others = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        say(f"warning of {keys[0][:12]}{others}: {text}")


def alarms(texts: "dict[str, str]") -> None:
    """Print alarms of audits, in red."""
    for label, text in texts.items():
        out.print(f"ALARM: {label}: {text}", style="bold red", markup=False, highlight=False)


def failures(failed: "list[Ended]") -> None:
    """Print failures, and where to look."""
    for each in failed:
        first = each.message.splitlines()[0] if each.message else ""
        say(f"{each.kind} {each.key[:12]} failed: {each.reason}: {first}")
    if failed:
        say("Details: privbench logs KEY. Rerun: privbench retry SWEEP.")


def collected(summary: "Collected", json: bool) -> None:
    """Print the outcome of a collection."""
    content = {key: value for key, value in vars(summary).items() if isinstance(value, int | float)}
    if json:
        json_out(content)
    else:
        say(", ".join(f"{key} {cell(value)}" for key, value in content.items()))


def interval(row: dict[str, Any], name: str) -> str | None:
    """A figure with its interval, if there is one."""
    if row[name] is None:
        return None
    if row[f"{name}_low"] is None:
        return f"{row[name]:.3f}"
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
