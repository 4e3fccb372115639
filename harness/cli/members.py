"""What there is: listings of all families, and pages of methods, workloads, attacks and sweeps."""

from typing import Any

from pydantic_core import PydanticUndefined

import methods
import workloads
from harness import attacks, backends
from harness.plan.sweep_file import find_sweep, read_sweep, ready_made
from methods.base import Params
from workloads.base import Prepared, Workload
from workloads.errors import BenchError, UnknownName
from workloads.recipe import recipe

Row = dict[str, Any]


def listing(kind: str) -> list[Row]:
    """A row per member of a family, or per ready-made sweep."""
    if kind == "methods":
        found = methods.family.members.items()
        return [{"name": n, "guarantee": m.guarantee, "about": m.about} for n, m in sorted(found)]
    if kind == "workloads":
        return [_workload_row(name) for name in workloads.family.names()]
    if kind == "attacks":
        members = attacks.family.members.items()
        return [{"name": n, "shadows": a.shadows, "about": a.about} for n, a in sorted(members)]
    if kind == "backends":
        known = backends.family.members.items()
        return [{"name": n, "profile": b.Profile is not None, "about": b.about} for n, b in sorted(known)]
    return [_sweep_row(name) for name in ready_made()]


def _workload_row(name: str) -> Row:
    workload = workloads.family.get(name)
    return {
        "name": name,
        "classes": workload.classes,
        "members": workload.n_train,
        "about": workload.about,
    }


def _sweep_row(name: str) -> Row:
    sweep, _ = read_sweep(*find_sweep(name))
    return {
        "name": name,
        "cells": sum(1 for grid in sweep.grids for _ in grid.points()),
        "models": sweep.models,
        "attacks": ", ".join(choice.name for choice in sweep.attacks),
    }


def page(kind: str, name: str) -> Row:
    """Everything about one member."""
    if kind == "sweep":
        if name not in ready_made():
            raise UnknownName("sweep", name, ready_made())
        return {"name": name, "file": ready_made()[name].read_text(encoding="utf-8")}
    if kind == "method":
        method = methods.family.get(name)
        facts: Row = {"guarantee": method.guarantee, "caveats": list(method.caveats)}
        return {**_head(name, method), **facts, "parameters": parameters(method.Params)}
    if kind == "attack":
        attack = attacks.family.get(name)
        facts = {"shadows": attack.shadows, "caveats": list(attack.caveats)}
        return {**_head(name, attack), **facts, "parameters": parameters(attack.Params)}
    workload = workloads.family.get(name)
    return {
        **_head(name, workload),
        "classes": workload.classes,
        "members per model": workload.n_train,
        **_sizes(workload),
        "recipe": _recipe_rows(name),
    }


def _sizes(workload: Workload) -> Row:
    """The numbers of records, or what is missing to count them."""
    if isinstance(workload, Prepared) and (reason := workload.unprepared()):
        return {"pool": None, "test": None, "data": reason}
    try:
        return {"pool": len(workload.pool()), "test": len(workload.test())}
    except BenchError as error:
        return {"pool": None, "test": None, "data": str(error)}


def _head(name: str, member: Any) -> Row:
    return {"name": name, "about": member.about, "source": member.source, "version": member.version}


def parameters(kind: type[Params]) -> list[Row]:
    """A row per parameter: name, default, allowed values, help."""
    schema = kind.model_json_schema()["properties"]
    rows = []
    for name, info in kind.model_fields.items():
        default = "required" if info.default is PydanticUndefined else info.default
        allowed = schema[name].get("enum") or [
            value for each in schema[name].get("anyOf", []) for value in each.get("enum", [])
        ]
        about = info.description or ""
        rows.append(
            {
                "parameter": name,
                "default": default,
                "about": f"{about} One of {', '.join(map(str, allowed))}." if allowed else about,
            }
        )
    return rows


def _recipe_rows(name: str) -> list[Row]:
    book = recipe(workloads.family.get(name))
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
