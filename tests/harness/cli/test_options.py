"""Shell completion: existing names, found without loading torch."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import methods
import workloads
from harness import attacks, backends
from harness.plan.sweep_file import ready_made

KEYS = ("3fa94c" + 26 * "0", "3fb1" + 28 * "0", "a0" + 30 * "1")
LINES = (
    "privbench run --method ",
    "privbench bench --method sgd,",
    "privbench plan --workload ",
    "privbench enqueue --attack ",
    "privbench report frontier --attack ",
    "privbench run --backend ",
    "privbench doctor --backend ",
    "privbench run ",
    "privbench show method ",
    "privbench show workload digits-",
    "privbench show attack ",
    "privbench show sweep ",
    "privbench show published lecture",
    "privbench run --published dpsur-table-",
    "privbench status --store there ",
    "privbench purge --store there --sweep ",
    "privbench cancel ",
    "privbench logs --store there 3f",
    "privbench logs --store there x*",
    "privbench price ",
    "privbench price dp-sgd --set steps=1 --workload ",
)
PROGRAM = f"""
import contextlib, io, json, os, sys, time
from harness.cli.app import main

sys.argv = ["privbench"]
os.environ["_PRIVBENCH_COMPLETE"] = "complete_bash"
found = {{}}
for line in {LINES!r}:
    os.environ["COMP_WORDS"] = line
    os.environ["COMP_CWORD"] = str(line.count(" "))
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main()
    found[line] = printed.getvalue().split()
heavy = sorted({{"torch", "numpy", "duckdb", "sqlalchemy", "sklearn"}} & sys.modules.keys())
print(json.dumps({{"found": found, "heavy": heavy}}))
"""


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The completions of bash for each line, in a folder with a store of two sweeps and three tasks."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "there/sweeps").mkdir(parents=True)
    for name in ("first", "second"):
        (folder / f"there/sweeps/{name}.json").write_text("{}")
    for key in KEYS:
        (folder / "there/tasks" / key[:2] / key).mkdir(parents=True)
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    here.pop("PRIVBENCH_STORE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=here, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_completion_loads_no_torch(completed: dict[str, Any]) -> None:
    assert completed["heavy"] == []


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("privbench run --method ", methods.family.names()),
        ("privbench show method ", methods.family.names()),
        (
            "privbench bench --method sgd,",
            [f"sgd,{name}" for name in methods.family.names() if name != "sgd"],
        ),
        ("privbench plan --workload ", workloads.family.names()),
        ("privbench price dp-sgd --set steps=1 --workload ", workloads.family.names()),
        ("privbench show workload digits-", ["digits-linear", "digits-mlp"]),
        ("privbench enqueue --attack ", attacks.family.names()),
        ("privbench report frontier --attack ", attacks.family.names()),
        ("privbench show attack ", attacks.family.names()),
        ("privbench run --backend ", backends.family.names()),
        ("privbench doctor --backend ", backends.family.names()),
        ("privbench run ", list(ready_made())),
        ("privbench show sweep ", list(ready_made())),
        ("privbench show published lecture", ["lecture-shokri"]),
        ("privbench run --published dpsur-table-", [f"dpsur-table-{number}" for number in (2, 3, 4)]),
        ("privbench status --store there ", ["first", "second"]),
        ("privbench purge --store there --sweep ", ["first", "second"]),
        ("privbench cancel ", []),
        ("privbench logs --store there 3f", list(KEYS[:2])),
        ("privbench logs --store there x*", []),
    ],
)
def test_the_names_that_are_offered(line: str, names: list[str], completed: dict[str, Any]) -> None:
    assert completed["found"][line] == names


def test_price_offers_mechanisms_and_methods(completed: dict[str, Any]) -> None:
    found = completed["found"]["privbench price "]
    assert {"gaussian", "votes", *methods.family.names()} <= set(found)
    assert "method" not in found, "it stands for the name of one"
