"""Rows as the views give them: two workloads, sgd and dp-sgd, four attacks, eight models."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from harness.report.page.html import draw_page
from harness.report.reading import Reading, Roc, name_groups
from tests.harness.report.browser import CHROMIUM, Visit, chromium

NORMAL = NormalDist()
NONMEMBERS = 719
FPRS = {"10pct": 0.1, "1pct": 0.01, "0p1pct": 0.001, "0p01pct": 0.0001}
ATTACKS = {"loss": 0.55, "population": 0.55, "reference": 0.8, "lira": 1.0}
WORKLOADS = {"digits-linear": (0.955, 0.3), "digits-mlp": (0.975, 0.85)}
LOSSES = {None: (0.0, 1.0), 8.0: (0.03, 0.25), 4.0: (0.05, 0.18), 1.0: (0.16, 0.07)}

MakeRow = Callable[..., dict[str, Any]]


def tpr_at(mu: float, fpr: float) -> float:
    """The binormal curve with distance mu."""
    return NORMAL.cdf(mu + NORMAL.inv_cdf(fpr)) if 0 < fpr < 1 else fpr


def frontier_row(
    workload: str = "digits-mlp",
    method: str = "dp-sgd",
    epsilon: float | None = 4.0,
    attack: str = "lira",
    models: int = 8,
    accuracy: float = 0.9,
    mu: float = 0.2,
    **changes: Any,
) -> dict[str, Any]:
    """One consistent row of the view: every leakage figure comes from one binormal curve."""
    n, auc = models * NONMEMBERS, NORMAL.cdf(mu / math.sqrt(2))
    label = method if epsilon is None else f"{method} ε={epsilon:g}"
    row: dict[str, Any] = {
        "cell": f"{workload}/{label}",
        "workload": workload,
        "method": method,
        "role": {"sgd": "plain-baseline", "dp-sgd": "private-baseline"}.get(method),
        "label": label,
        "params": {"batch_size": 64, "epochs": 20, "lr": 0.5},
        "epsilon_asked": epsilon,
        "solved": None,
        "guarantee_kind": "none" if epsilon is None else "approximate-dp",
        "adjacency": None if epsilon is None else "add-or-remove",
        "accountant": None if epsilon is None else "pld",
        "epsilon": None if epsilon is None else epsilon * 0.998,
        "epsilon_rdp": None if epsilon is None else epsilon * 1.07,
        "epsilon_paper": None,
        "delta": None if epsilon is None else 1e-5,
        "attack": attack,
        "attack_params": {},
        "attack_defaults": True,
        "models": models,
        "accuracy": accuracy,
        "accuracy_low": accuracy - 0.008 if models > 1 else None,
        "accuracy_high": accuracy + 0.008 if models > 1 else None,
        "train_accuracy": min(1.0, accuracy + 0.02),
        "auc": auc,
        "auc_low": auc - 0.012,
        "auc_high": auc + 0.012,
        "auc_pooled": auc,
        "balanced_accuracy": NORMAL.cdf(mu / 2),
        "accuracy_oracle": NORMAL.cdf(mu / 2) + 0.004,
        "advantage": 2 * NORMAL.cdf(mu / 2) - 1,
        "n_members": models * 718,
        "n_nonmembers": n,
        "step_seconds": 0.001 if epsilon is None else 0.0042,
        "step_overhead": None,
        "example_overhead": 1.0 if epsilon is None else 4.2,
        "overhead_by": "per example",
        "training_overhead": 1.0 if epsilon is None else 2.1,
        "extra_memory_bytes": 2**25 if epsilon is None else 3 * 2**25,
        "memory_overhead": 1.0 if epsilon is None else 3.0,
        "train_seconds": 0.9,
        "tuned": "3 in the recipe",
        "validation_accuracy": accuracy - 0.004,
        "validation_accuracy_low": accuracy - 0.012 if models > 1 else None,
        "validation_accuracy_high": accuracy + 0.004 if models > 1 else None,
        "chosen": True,
        "workload_version": "1",
        "n_train": 718,
        "blind_auc": 0.501,
        "valid": True,
        "on_front": False,
        "tested": None,
        "ceiling_by": None if epsilon is None else "pld twice",
        "attack_task": f"{workload}/{label}/{attack}",
    }
    for name, fpr in FPRS.items():
        column, value = f"tpr_at_{name}", tpr_at(mu, fpr)
        half = 1.96 * math.sqrt(value * (1 - value) / n)
        known = n * fpr >= 10
        row[column] = value if known else None
        row[f"{column}_low"] = max(0.0, value - half) if known else None
        row[f"{column}_high"] = value + half if known else None
    return row | changes


def make_reading(rows: list[dict[str, Any]], **changes: Any) -> Reading:
    """A reading of these frontier rows, with curves and costs that belong to them."""
    fprs = [10 ** (-4 + 4 * i / 100) for i in range(101)]
    rocs = {}
    for row in rows:
        mu = math.sqrt(2) * NORMAL.inv_cdf(row["auc"])
        rocs[row["attack_task"]] = Roc(fprs, [tpr_at(mu, fpr) for fpr in fprs])
    cells = {row["cell"]: row for row in rows}
    names = ["cell", "workload", "workload_version", "n_train", "method", "label", "guarantee_kind"]
    names += ["epsilon", "models", "step_seconds", "step_overhead", "example_overhead", "overhead_by"]
    names += ["extra_memory_bytes", "memory_overhead", "train_seconds", "training_overhead"]
    overhead = [
        {name: row[name] for name in names}
        | {
            "device": "cpu",
            "threads": 1,
            "step_seconds_p25": row["step_seconds"] * 0.9,
            "step_seconds_p75": row["step_seconds"] * 1.25,
            "step_cpu_seconds": row["step_seconds"] * 0.95,
            "step_overhead_low": None,
            "step_overhead_high": None,
            "batch_size": 64,
            "example_cpu_overhead": None
            if row["example_overhead"] is None
            else row["example_overhead"] * 0.97,
        }
        for row in cells.values()
    ]
    name_groups([*rows, *overhead])
    methods = sorted({row["method"] for row in rows})
    ceilings = {
        row["cell"]: Roc([0.0, *fprs], [0.0, *(tpr_at(2.0, fpr) for fpr in fprs)])
        for row in rows
        if row["ceiling_by"]
    }
    fields: dict[str, Any] = {"rocs": rocs, "ceilings": ceilings, "overhead": overhead, "methods": methods}
    fields["baselines"] = frozenset({"sgd"})
    return Reading(frontier=list(rows), **(fields | changes))


def quickstart_rows() -> list[dict[str, Any]]:
    """Rows similar to those of the quickstart."""
    return [
        frontier_row(
            workload,
            "sgd" if epsilon is None else "dp-sgd",
            epsilon,
            attack,
            accuracy=top - loss,
            mu=reach * share * strength,
        )
        for workload, (top, reach) in WORKLOADS.items()
        for epsilon, (loss, share) in LOSSES.items()
        for attack, strength in ATTACKS.items()
    ]


FAILURE = {
    "task": "0" * 32,
    "kind": "train",
    "label": "dp-sgd ε=0.1",
    "workload": "digits-mlp",
    "method": "dp-sgd",
    "reason": "diverged",
    "message": "loss is not finite at step 17 of phase 'train'",
}


@pytest.fixture
def row() -> MakeRow:
    """One row of the frontier, with the test's changes."""
    return frontier_row


@pytest.fixture
def reading() -> Callable[..., Reading]:
    """A reading of given rows."""
    return make_reading


@pytest.fixture(scope="session")
def quickstart() -> Reading:
    """The quickstart's rows, with a failed cell."""
    return make_reading(quickstart_rows(), failures=[FAILURE, FAILURE | {"task": "1" * 32}])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with chromium() as found:
        yield found


def openings(browser: Any, folder: Path) -> Iterator[Callable[[Reading], Any]]:
    """Open pages of readings from disk; at the end none may have errors."""
    visits: list[Visit] = []

    def open_reading(reading: Reading) -> Any:
        (file,) = draw_page(reading, folder / str(len(visits)))
        visits.append(Visit(browser, file.as_uri()))
        return visits[-1].page

    yield open_reading
    for visit in visits:
        visit.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[[Reading], Any]]:
    """Open the page of a reading, for one test."""
    yield from openings(browser, tmp_path)


@pytest.fixture(scope="module")
def open_once(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Reading], Any]]:
    """The same for all tests of a file: an opening takes seconds."""
    yield from openings(browser, tmp_path_factory.mktemp("pages"))
