"""What the command line prints: tables for people, JSON for programs, errors on standard error."""

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
    from harness.backends.slurm.schedule import Schedule
    from harness.backends.status import Progress
    from harness.plan.estimate import Estimate
    from harness.plan.plan import Plan
    from harness.results.collect import Collected
    from harness.spec import Cell, Json

out = Console()
if not out.is_terminal:
    out.width = 180  # a file or a pipe has no width; tables should not be folded there
err = Console(stderr=True)


def say(text: str) -> None:
    """One line for people."""
    out.print(escape(text), highlight=False, soft_wrap=True)


def complain(error: BenchError) -> None:
    """An error, every problem on its own line."""
    problems = error.problems if isinstance(error, SpecError) else [str(error)]
    for problem in problems:
        err.print(f"[red]error:[/red] {escape(problem)}", highlight=False, soft_wrap=True)


def json_out(content: Any) -> None:
    """JSON on standard output; an infinity is the string "inf"."""
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
    """One value as people read it."""
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
    """Cells, tasks, what is cached, what the rest costs, and how long a cluster would take."""
    from harness.spec import distinct_labels

    trainings = sum(task.kind == "train" for task in made.tasks)
    content: dict[str, Any] = {
        "sweep": made.sweep.name,
        "cells": len(made.cells),
        "tasks": len(made.tasks),
        "trainings": trainings,
        "attacks": len(made.tasks) - trainings,
        "cached": len(made.done),
        "failed": len(made.failed),
        "to_run": len(made.todo),
        "purged": len(made.purged),
        "hours": cost.seconds / 3600 if cost else None,
        "memory_gib": cost.memory_bytes / 2**30 if cost else None,
    }
    tasks = Counter(task.cell.key for task in made.tasks)
    cached = Counter(task.cell.key for task in made.tasks if task.key in made.done)
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
    say(
        f"{content['cells']} cells, {trainings} trainings, {content['attacks']} attacks; "
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
        say(f"{len(made.purged)} trainings run again: new attacks read their models, which were purged.")
    if made.failed:
        say(f"Failed tasks run again only when asked: privbench retry {made.sweep.name}")
    plan_warnings(made)


def plan_warnings(made: "Plan") -> None:
    """What a plan warns of, in yellow on standard error."""
    for text in made.warnings:
        err.print(f"[yellow]warning:[/yellow] {escape(text)}", highlight=False, soft_wrap=True)


def _span(seconds: float) -> str:
    """A time as people say it."""
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
    """Counts per sweep; with `detailed` also what runs and what failed."""
    from harness.spec import PROTOCOL

    rows = [each.summary() for each in sweeps]
    if json:
        details = [
            {
                **each.summary(),
                "running_tasks": [vars(task) for task in each.running],
                "failures": [failure_row(result) for result in each.failures],
                "warnings": each.warnings,
                "alarms": each.alarms,
                "scheduler": each.scheduler,
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
                "apart. Enqueue it again to measure anew."
            )
    workers(supervisor, sweeps)
    for each in sweeps if detailed else ():
        for task in each.running:
            say(f"{task.key[:12]} {task.label} {task.phase} {task.done}/{task.total}")
        warnings(each.warnings)
        alarms(each.alarms)
        failures(each.failures)


def workers(supervisor: "Json", sweeps: "list[Progress]") -> None:
    """Who works on the sweeps: this machine's supervisor, or SLURM."""
    local = [each for each in sweeps if each.backend != "slurm"]
    if supervisor["alive"]:
        say(f"supervisor runs as process {supervisor.get('pid', '?')}")
    elif local:
        say("no supervisor runs")
        if any(each.queued for each in local):
            say("work is queued but nobody works on it: `privbench run` or `privbench enqueue` goes on")
    for each in sweeps:
        if each.backend == "slurm" and not each.over:
            say(f"{each.name}: {_slurm(each.scheduler)}")


def _slurm(words: "list[Json] | None") -> str:
    if words is None:
        return "SLURM does not answer; the counts are from the store, which decides"
    if not words:
        return "SLURM has nothing of it; `privbench enqueue` sends what is open"
    counts = Counter(f"{word['state']} ({word['reason']})" for word in words)
    return "SLURM has jobs: " + ", ".join(f"{count} {state}" for state, count in counts.most_common())


def failure_row(result: "Json") -> dict[str, Any]:
    """A failed task for people and programs."""
    return {name: result[name] for name in ("key", "kind", "reason", "message")}


def warnings(texts: "dict[str, list[str]]") -> None:
    """What tasks warned of, each text once."""
    for text, keys in texts.items():
        others = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        say(f"warning of {keys[0][:12]}{others}: {text}")


def alarms(texts: "dict[str, str]") -> None:
    """What audits proved above the price, in red."""
    for label, text in texts.items():
        out.print(f"ALARM: {label}: {text}", style="bold red", markup=False, highlight=False)


def failures(results: "list[Json]") -> None:
    """What failed, and where to look."""
    for result in results:
        first = str(result["message"]).splitlines()[0] if result["message"] else ""
        say(f"{result['kind']} {result['key'][:12]} failed: {result['reason']}: {first}")
    if results:
        say("More: privbench logs KEY. Again: privbench retry SWEEP.")


def collected(summary: "Collected", json: bool) -> None:
    """What a collection brought."""
    content = {key: value for key, value in vars(summary).items() if isinstance(value, int | float)}
    if json:
        json_out(content)
    else:
        say(", ".join(f"{key} {cell(value)}" for key, value in content.items()))


def bench(document: "Json") -> None:
    """The figures of one bench, and whether to believe them."""
    threads = f"{document['threads']} thread{'s' * (document['threads'] > 1)}"
    title = (
        f"{document['workload']}, {document['parameters']:,} parameters, "
        f"batches of {document['batch_size']}, {document['device']}, {threads}"
    )
    out.print(table([_bench_row(entry) for entry in document["methods"]], title=title))
    for entry in document["methods"]:
        if entry["status"] == "failed":
            say(f"{entry['variant']} failed: {entry['reason']}: {entry['message']}")
    time = "CPU time" if document["clock"] == "cpu" else "time between events"
    say(f"step / plain: {time} of a step without drawing the batch, median and 95 % interval.")
    say("extra memory: peak of a step above the level before it; below a few MiB it is noise.")
    if any(entry["role"] == "method" and (entry["ratio"] or 1) < 1 for entry in document["methods"]):
        say(
            "below 1: the plain baseline computes by autograd and pays for its graph, which the method "
            "partly does without; this compares implementations, it does not make privacy free."
        )
    if not document["trustworthy"]:
        say(f"NOT TRUSTWORTHY: {document['reason']}")
    say(f"recorded as task {document['key'][:12]}")


def _bench_row(entry: dict[str, Any]) -> dict[str, Any]:
    measured = {"ratio": entry["ratio"], "ratio_low": entry["ratio_low"], "ratio_high": entry["ratio_high"]}
    return {
        "method": entry["variant"],
        "engine": entry["engine_used"],
        "step / plain": interval(measured, "ratio"),
        "whole step": _rounded(entry["ratio_whole_step"], 1, 3),
        "CPU ms": _rounded(entry["median_cpu_seconds"], 1e3, 3),
        "IQR": _rounded(entry["iqr_cpu_seconds"], 1e3, 3),
        "wall ms": _rounded(entry["median_wall_seconds"], 1e3, 3),
        "extra MiB": _rounded(entry["peak_memory_bytes"], 2**-20, 1),
        "memory / plain": _rounded(entry["memory_ratio"], 1, 2),
        "steps": entry["steps"],
    }


def _rounded(value: float | None, scale: float, digits: int) -> str | None:
    return None if value is None else f"{value * scale:.{digits}f}"


def interval(row: dict[str, Any], name: str) -> str | None:
    """A figure with its interval, where there is one."""
    if row[name] is None:
        return None
    if row[f"{name}_low"] is None:
        return f"{row[name]:.3f}"
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
