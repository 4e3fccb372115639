"""The report of 200 cells and six attacks: how large its page is, how soon it opens, how long all takes."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import pytest
from sqlalchemy.orm import Session

import db
from harness.report import write_all
from harness.report.page.html import draw_page
from harness.report.reading import read
from harness.store import Store
from tests.harness.report.browser import CHROMIUM, Visit, chromium

pytestmark = pytest.mark.benchmark

Record = Callable[[str, object], None]

CELLS = 200
MODELS = 8
ATTACKS = ("loss", "population", "reference", "shadow", "lira", "rmia")
METHODS = ("sgd", "dp-sgd", "dpis", "dpsur", "pd-sgd")
WORKLOADS = ("digits-linear", "digits-mlp")
POINTS = 262
NORMAL = NormalDist()
ENDS = (("low", -0.1), ("high", 0.1))
MADE = {"host": "node1", "git": "0123456789ab", "torch": "2.13.0", "python": "3.11.7", "platform": "x" * 60}


def roc(mu: float) -> dict[str, list[float]]:
    """A binormal curve with as many points as an attack stores."""
    fprs = [10 ** (-5 + 5 * place / POINTS) for place in range(POINTS + 1)]
    tprs = [NORMAL.cdf(mu + NORMAL.inv_cdf(fpr)) if fpr < 1 else 1.0 for fpr in fprs]
    return {"fpr": fprs, "tpr": tprs}


def task_row(key: str, cell: str, workload: str, method: str, **changes: Any) -> db.Task:
    kind = "attack" if "attack" in changes else "train"
    fields: dict[str, Any] = {"status": "done", "kind": kind, "threads": 1, "device": "cpu", "host": "node1"}
    return db.Task(
        key=key, cell=cell, workload=workload, method=method, provenance=MADE, spec={}, protocol=1,
        checksum=key, **(fields | changes),
    )  # fmt: skip


def cell_rows(number: int) -> list[db.Base]:
    """One cell with its trainings and attacks; numbers with all their digits."""
    workload, method = WORKLOADS[number % 2], METHODS[number % len(METHODS)]
    epsilon = None if method in ("sgd", "pd-sgd") else 0.1 * (number + 1)
    key, lift = f"{number:032x}", math.sin(number) / 30
    params = {f"parameter_{place}": math.sqrt(place + number) for place in range(18)}
    label = method if epsilon is None else f"{method} ε={epsilon:g}"
    rows: list[db.Base] = [
        db.Cell(
            key=key, workload=workload, workload_version="1", method=method, method_version="1",
            params=params, epsilon_asked=epsilon, seed=0, n_train=718, label=label, tried_before=6,
            protocol=1,
        )
    ]  # fmt: skip
    for index in range(MODELS):
        name = f"{number:016x}{index:016x}"
        rows.append(task_row(name, key, workload, method, index=index))
        rows.append(
            db.ModelRun(
                task=name, cell=key, index=index, test_accuracy=0.9 + lift + math.cos(index) / 100,
                train_accuracy=0.97 + lift / 3, nonmember_accuracy=0.9 + lift,
                test_loss=0.3 - lift, epsilon=epsilon, assumptions=[],
                guarantee_kind="none" if epsilon is None else "approximate-dp", stats={},
                train_seconds=3 + math.pi * index,
                step_seconds_median=0.01 + lift / 10, step_seconds_p25=0.009, step_seconds_p75=0.02,
                extra_memory_bytes=1_000_000 + number,
            )
        )  # fmt: skip
    for place, attack in enumerate((*ATTACKS, "blind")):
        name, mu = f"{number:016x}a{place:015x}", (0.3 + lift) * (1 + place / 7)
        auc = NORMAL.cdf(mu / math.sqrt(2)) if attack != "blind" else 0.5
        rates = {"tpr_at_10pct": 0.1, "tpr_at_1pct": 0.01}
        found = {name: NORMAL.cdf(mu + NORMAL.inv_cdf(fpr)) for name, fpr in rates.items()}
        spread = {f"{name}_{end}": value * (1 + s) for name, value in found.items() for end, s in ENDS}
        rows.append(task_row(name, key, workload, method, attack=attack))
        rows.append(
            db.AttackResult(
                task=name, cell=key, attack=attack, attack_version="1", attack_params={}, models=MODELS,
                n_members=5744, n_nonmembers=5752, auc=auc, auc_low=auc - 0.0123, auc_high=auc + 0.0123,
                balanced_accuracy=auc - 0.01, valid=True if attack == "blind" else None, roc=roc(mu),
                **found, **spread,
            )
        )  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = Store.open(tmp_path_factory.mktemp("large") / "store", create=True)
    engine = db.open_database(found.database)
    with Session(engine) as session:
        for number in range(CELLS):
            session.add_all(cell_rows(number))
        session.commit()
    engine.dispose()
    return found.path


def test_all_reports_of_200_cells(store: Path, tmp_path: Path, record_property: Record) -> None:
    begin, busy = time.monotonic(), time.process_time()
    write_all(store, tmp_path / "out")
    record_property("report_all_seconds", time.monotonic() - begin)
    record_property("report_all_cpu_seconds", time.process_time() - busy)
    assert time.process_time() - busy < 20


def test_the_page_of_200_cells_is_small_and_opens_soon(
    store: Path, tmp_path: Path, record_property: Record
) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    (file,) = draw_page(read(store), tmp_path)
    record_property("page_bytes", file.stat().st_size)
    assert file.stat().st_size < 5_000_000
    seconds = []
    with chromium() as browser:
        for _ in range(5):
            begin = time.monotonic()
            visit = Visit(browser, file.as_uri())
            visit.page.wait_for_selector("#frontier-plot .points path")
            seconds.append(time.monotonic() - begin)
            assert visit.page.locator("#table tbody tr").count() == CELLS // 2
            visit.close()
    record_property("page_open_seconds", median(seconds))
    record_property("page_open_seconds_best", min(seconds))
    assert min(seconds) < 2  # the best of five: others of the machine only ever make it slower
