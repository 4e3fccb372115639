"""What there is: listings of all families, and pages of members, sweeps and published tables.

Members are not loaded: what they say about themselves is in the manifest (harness/members/).
"""

from typing import Any, cast

from harness.members.facts import AttackFacts, Facts, Kind, MethodFacts, Parameter, WorkloadFacts
from harness.members.manifest import (
    all_facts,
    attack_facts,
    broken_plugins,
    method_facts,
    workload_facts,
)
from harness.members.sizes import sizes_of
from harness.papers.published_lines import find_obstacle, find_table, has_data, lines_of, members_of
from harness.papers.published_tables import PrintedTable, Published, papers
from harness.plan.sweep_file import find_sweep, read_sweep, ready_made
from workloads.errors import UnknownName
from workloads.recipe import recipe_in

Row = dict[str, Any]


def listing(kind: str) -> list[Row]:
    """A row per member of a family, or per ready-made sweep."""
    if kind == "methods":
        methods = cast(dict[str, MethodFacts], all_facts("method"))
        return [{"name": n, "guarantee": m.guarantee, "about": m.about} for n, m in methods.items()]
    if kind == "workloads":
        workloads = cast(dict[str, WorkloadFacts], all_facts("workload"))
        return [
            {"name": n, "classes": w.classes, "members": w.n_train, "about": w.about}
            for n, w in workloads.items()
        ]
    if kind == "attacks":
        attacks = cast(dict[str, AttackFacts], all_facts("attack"))
        return [{"name": n, "shadows": a.shadows, "about": a.about} for n, a in attacks.items()]
    if kind == "backends":
        from harness import backends

        known = backends.family.members.items()
        return [{"name": n, "profile": b.Profile is not None, "about": b.about} for n, b in sorted(known)]
    if kind == "published":
        return [_table_row(table) for paper in papers() for table in paper.table]
    return [_sweep_row(name) for name in ready_made()]


def broken(kind: str) -> list[str]:
    """The plug-ins of a family that do not load."""
    if kind == "backends":
        from harness import backends

        return sorted(backends.family.broken)
    of_members = kind not in ("sweeps", "published")
    return broken_plugins(cast(Kind, kind.removesuffix("s"))) if of_members else []


def _sweep_row(name: str) -> Row:
    sweep, _ = read_sweep(*find_sweep(name))
    return {
        "name": name,
        "cells": sum(1 for grid in sweep.grids for _ in grid.points()),
        "models": sweep.models,
        "attacks": ", ".join(choice.name for choice in sweep.attacks),
    }


def _table_row(table: PrintedTable) -> Row:
    lines = lines_of(table.name)
    able = [line for line in lines if find_obstacle(line) is None]
    return {
        "name": table.name,
        "printed": table.printed,
        "about": table.about,
        "lines": len(lines),
        "runnable": len(able),
        "data set here": sum(map(has_data, able)),
    }


def _table_page(name: str) -> Row:
    """A published table: what holds for all lines, and each with its figures or why it cannot be run."""
    table, lines = find_table(name), lines_of(name)
    return {
        "name": name,
        "printed": f"{table.printed}: {table.about}",
        "source": lines[0].paper.citation,
        "protocol": list(table.protocol),
        "not stated": ", ".join(table.unstated) or "-",
        "lines": [_line_row(line) for line in lines],
    }


def _line_row(line: Published) -> Row:
    cell, why = line.cell, find_obstacle(line)
    figures = zip(line.block.metrics, cell.values, strict=True)
    params = ", ".join(f"{name}={value}" for name, value in cell.params.items())
    return {
        "workload": cell.workload or cell.on,
        "line": line.number,
        "method": f"{cell.method or cell.label}{f' ({params})' if params else ''}",
        "figures": ", ".join(f"{metric.key} {value:.{metric.decimals}f}" for metric, value in figures),
        "members": line.n_train if why else members_of(line),
        "runs": line.block.runs,
        "runnable": why or "yes",
    }


def page(kind: str, name: str) -> Row:
    """Everything about one member, sweep or published table."""
    if kind == "published":
        return _table_page(name)
    if kind == "sweep":
        if name not in ready_made():
            raise UnknownName("sweep", name, ready_made())
        return {"name": name, "file": ready_made()[name].read_text(encoding="utf-8")}
    if kind == "method":
        method = method_facts(name)
        facts: Row = {"guarantee": method.guarantee, "caveats": list(method.caveats)}
        rows = parameters(method.parameters)
        for row, each in zip(rows, method.parameters, strict=True):
            row["tuned"] = each.search
        return {**_head(name, method), **facts, "parameters": rows}
    if kind == "attack":
        attack = attack_facts(name)
        facts = {"shadows": attack.shadows, "caveats": list(attack.caveats)}
        return {**_head(name, attack), **facts, "parameters": parameters(attack.parameters)}
    workload = workload_facts(name)
    return {
        **_head(name, workload),
        "classes": workload.classes,
        "members per model": workload.n_train,
        **sizes_of(name),
        "recipe": _recipe_rows(name, workload),
    }


def _head(name: str, facts: Facts) -> Row:
    return {"name": name, "about": facts.about, "source": facts.source, "version": facts.version}


def parameters(declared: tuple[Parameter, ...]) -> list[Row]:
    """A row per parameter: name, default, allowed values, help."""
    rows = []
    for each in declared:
        allowed = f" One of {', '.join(map(str, each.allowed))}." if each.allowed else ""
        default = "required" if each.required else each.default
        rows.append({"parameter": each.name, "default": default, "about": f"{each.about}{allowed}"})
    return rows


def _recipe_rows(name: str, workload: WorkloadFacts) -> list[Row]:
    book = recipe_in(workload.recipe_folder, name)
    numbered = [
        (f"{method}, setting {number}", settings)
        for method, each in book.setting.items()
        for number, settings in each.items()
    ]
    rows = []
    for method, settings in [("every method", book.default), *book.method.items(), *numbered]:
        for parameter, setting in settings.items():
            rows.append(
                {
                    "method": method,
                    "parameter": parameter,
                    "value": setting.shown,
                    "source": setting.source,
                    "tried": setting.tried,
                    "note": setting.note,
                }
            )
    return rows
