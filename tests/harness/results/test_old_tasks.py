"""Tasks of older versions, whose notes lack what their method declares."""

from pathlib import Path
from typing import Any

import methods
from harness.plan.declarations import uncounted
from harness.results.old_tasks import find_declared, find_uncounted
from harness.results.rows import cell_row
from harness.spec import Declared, Task, configuration_of, read_task
from harness.store import Store
from harness.store.imports import Origin
from tests.harness.simulated import cell

PARAMS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "noise_multiplier": 1.5, "engine": "opacus"}


def row_of(task: Task, *without: str) -> dict[str, Any]:
    file = task.file()
    file["notes"] = {name: value for name, value in file["notes"].items() if name not in without}
    row = cell_row(Origin("", Store("unused"), Path("unused")), read_task(file))
    assert row is not None
    return row


def test_missing_notes_are_taken_from_the_method() -> None:
    row = row_of(Task("train", cell("w", "dp-sgd", **PARAMS)), "declared")
    assert (row["role"], row["solved"]) == ("private-baseline", "noise_multiplier")
    given = row_of(Task("train", cell("w", "dp-sgd", **PARAMS | {"epsilon": None})), "declared")
    assert (given["role"], given["solved"]) == ("private-baseline", None)


def test_a_method_that_is_not_installed_declares_nothing() -> None:
    row = row_of(Task("train", cell("w", "gone", **PARAMS)), "declared", "configuration")
    assert (row["role"], row["solved"]) == (None, None)
    assert row["configuration"] == configuration_of(cell("w", "gone", **PARAMS).params, {"epsilon", "delta"})
    assert find_declared("gone", PARAMS) == Declared()


def test_a_configuration_of_0_1_is_the_one_of_today() -> None:
    first = row_of(Task("train", cell("w", "dp-sgd", **PARAMS)), "configuration")
    other = PARAMS | {"epsilon": 2.0, "noise_multiplier": 0.9, "engine": "auto"}
    assert row_of(Task("train", cell("w", "dp-sgd", **other)))["configuration"] == first["configuration"]
    changed = row_of(Task("train", cell("w", "dp-sgd", **PARAMS, clip=3.0)))
    assert changed["configuration"] != first["configuration"]
    assert find_uncounted("dp-sgd") == uncounted(methods.family.get("dp-sgd"))
