"""A method that deviates from its ledger is caught, and an honest one raises no alarm."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import methods
from harness.backends.status import Progress
from harness.jobs.loop import Stop, run_task
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Json
from harness.store import Store
from methods.base import Problem, Released, Run
from methods.dp_sgd import DpSgd, DpSgdParams
from tests.harness.simulated import sweep_record
from workloads.base import Records

MODELS, CANARIES = 4, 100
SWEEP: Json = {
    "models": MODELS,
    "attacks": ["loss", "audit-one-run"],
    "grid": [
        {
            "workload": "digits-linear",
            "method": "dp-sgd",
            "epsilon": 1,
            "steps": 60,
            "canary": "gradient",
            "canaries": CANARIES,
        }
    ],
}


class Careless(DpSgd):
    """Has the ledger of dp-sgd, and deviates from it."""

    def __init__(self, noise: float, clip: float) -> None:
        self.noise, self.clip = noise, clip

    def train(self, members: Records, problem: Problem, params: DpSgdParams, run: Run) -> Released:
        """Train with the noise and the clip scaled."""
        noise = (params.noise_multiplier or 0.0) * self.noise / self.clip
        done = params.model_copy(update={"noise_multiplier": noise, "clip": params.clip * self.clip})
        return replace(super().train(members, problem, done, run), ledger=self.planned(params, len(members)))


def audit(path: Path) -> tuple[Store, Json]:
    """Plan, train and audit one cell in this process; return its row of the view."""
    store = run(path, SWEEP)
    (row,) = query(store.path, "select * from audit").arrow.to_pylist()
    return store, row


def run(path: Path, content: Json) -> Store:
    """Plan, train and audit a sweep in this process, and collect it."""
    sweep, problems = read_sweep(content, "audited")
    plan = make_plan(sweep, problems, None)
    store = Store.open(path, create=True)
    store.add(*plan.tasks)
    store.write_sweep(sweep_record("audited", *plan.tasks))
    assert [run_task(store, task.key, Stop()) for task in plan.tasks] == ["done"] * len(plan.tasks)
    collect(store.path)
    return store


@pytest.mark.slow
def test_an_honest_dp_sgd_raises_no_alarm(tmp_path: Path) -> None:
    store, row = audit(tmp_path / "store")
    assert row["alarm"] is False and row["message"] is None
    assert 0 <= row["epsilon_audited"] < row["epsilon_priced"] <= 1.0
    assert row["trials"] == MODELS * CANARIES and row["meaning"] == "the guarantee put to the test"
    assert Progress.of(store, "audited").alarms == {}
    (attacked,) = query(store.path, "select * from frontier where attack = 'loss'").arrow.to_pylist()
    assert attacked["epsilon_audited"] == row["epsilon_audited"] and attacked["tested"] == "worst case too"
    assert attacked["canary_auc_low"] < attacked["canary_auc"] < attacked["canary_auc_high"]
    assert attacked["n_members"] == MODELS * 718, "canaries are judged apart"
    strongest = "select * from frontier where attack = 'strongest'"
    (chosen,) = query(store.path, strongest).arrow.to_pylist()
    assert chosen["n_members"] == MODELS * 718 and chosen["canary_auc"] is None


@pytest.mark.slow
def test_an_honest_private_search_raises_no_alarm(tmp_path: Path) -> None:
    grid = SWEEP["grid"][0] | {"method": "private-search", "mean": 3}
    store = run(tmp_path / "store", SWEEP | {"attacks": ["audit-one-run"], "grid": [grid]})
    (row,) = query(store.path, "select * from audit").arrow.to_pylist()
    assert row["alarm"] is False and 0 <= row["epsilon_audited"] < row["epsilon_priced"] <= 1.0
    assert row["trials"] == MODELS * CANARIES, "held-out canaries count as members"


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "clip"), [(0.1, 1.0), (1.0, 1000.0)], ids=["noise", "clip"])
def test_a_broken_dp_sgd_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: float, clip: float
) -> None:
    monkeypatch.setitem(methods.family.members, "dp-sgd", Careless(noise, clip))
    store, row = audit(tmp_path / "store")
    assert row["alarm"] is True and row["epsilon_audited"] > 1.0 >= row["epsilon_priced"]
    ((label, message),) = Progress.of(store, "audited").alarms.items()
    assert (
        label == "digits-linear, dp-sgd ε=1 +100 gradient, audit-one-run" and "above the computed" in message
    )
    assert row["threat"] == "white-box, adds gradients"


PAGE = Path(__file__).parents[3] / "docs" / "audit.md"
ROW = re.compile(
    r"\| `(?P<method>sgd|dp-sgd)`[^|]*\| (?P<median>[\d.]+) \((?P<low>[\d.]+) to (?P<high>[\d.]+)\) \|"
)
OTHER_SEEDS = 0.5
"""How far a further seed may lie outside the range of five."""


@pytest.mark.slow
def test_the_page_s_command_proves_the_bounds_of_its_table(tmp_path: Path) -> None:
    """The column `gradient` of docs/audit.md, by the command above it."""
    printed = [row.groupdict() for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    assert [row["method"] for row in printed] == ["sgd", "dp-sgd", "dp-sgd"]
    grid = {"workload": "digits-linear", "canary": "gradient", "canaries": CANARIES}
    grids = [{**grid, "method": "sgd"}, {**grid, "method": "dp-sgd", "epsilon": [8, 1]}]
    store = run(tmp_path / "store", {"models": MODELS, "attacks": ["audit-one-run"], "grid": grids})
    order = "epsilon_asked desc nulls first"
    found = query(store.path, f"select epsilon_audited from audit order by {order}").arrow.to_pylist()
    for row, each in zip(printed, found, strict=True):
        assert float(row["low"]) <= float(row["median"]) <= float(row["high"])
        assert float(row["low"]) - OTHER_SEEDS <= each["epsilon_audited"] <= float(row["high"]) + OTHER_SEEDS
