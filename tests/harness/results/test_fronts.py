"""The column `on_front`: equal to an independent computation in SQL, on stores with all kinds of results."""

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

import db
from harness.leakage.pareto import find_front
from harness.report.reading import rows_of
from harness.results.collect import collect
from harness.results.fronts import write_fronts
from harness.store import Store
from tests.harness.simulated import fill, fill_findings

BY_PAIRS = """
    select
        p.attack_task, p.on_front,
        p.chosen and coalesce(p.valid, false) and p.validation_accuracy is not null and p.auc is not null
        and not exists (
            select 1
            from frontier other
            where other.valid
                and other.chosen
                and other.origin = p.origin
                and other.protocol = p.protocol
                and other.workload = p.workload
                and other.workload_version = p.workload_version
                and other.n_train = p.n_train
                and other.canary is not distinct from p.canary
                and other.canaries = p.canaries
                and other.canary_version is not distinct from p.canary_version
                and other.attack = p.attack
                and cast(other.attack_params as varchar) = cast(p.attack_params as varchar)
                and other.validation_accuracy >= p.validation_accuracy
                and other.auc <= p.auc
                and (other.validation_accuracy > p.validation_accuracy or other.auc < p.auc)
        ) as by_pairs
    from frontier p
"""
"""Every row against every other: the definition, and how the view found its front before."""


@pytest.mark.slow
def test_the_front_is_what_comparing_every_pair_finds(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    fill(store)
    fill_findings(store)
    collect(store.path)
    rows = rows_of(store.path, BY_PAIRS)
    assert [row["on_front"] for row in rows] == [row["by_pairs"] for row in rows]
    assert {row["on_front"] for row in rows} == {True, False}


@pytest.mark.slow
def test_the_view_marks_the_same_front(tmp_path: Path) -> None:
    points = np.random.default_rng(5).integers(0, 6, size=(40, 2)) / 10 + 0.4
    store = Store.open(tmp_path / "store", create=True)
    engine = db.open_database(store.database)
    with Session(engine) as session:
        for number, (auc, accuracy) in enumerate(points.tolist()):
            session.add_all(cell_rows(f"cell-{number:02}", auc, accuracy))
        session.flush()
        write_fronts(session.connection())
        session.commit()
    engine.dispose()
    rows = rows_of(store.path, "select * from frontier order by cell")
    front = find_front([(row["auc"], row["accuracy"]) for row in rows])
    assert [i for i, row in enumerate(rows) if row["on_front"]] == front
    assert len(front) > len({(rows[i]["auc"], rows[i]["accuracy"]) for i in front}), "with a tie in it"
    pairs = rows_of(store.path, BY_PAIRS)
    assert [row["on_front"] for row in pairs] == [row["by_pairs"] for row in pairs]


def test_nothing_collected_is_no_front(tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "results.duckdb")
    with engine.begin() as connection:
        write_fronts(connection)
        assert connection.scalar(sa.select(sa.func.count()).select_from(db.FrontResult)) == 0
    engine.dispose()


def cell_rows(key: str, auc: float, accuracy: float) -> list[db.Base]:
    """A cell of one model, attacked once and found sound."""
    tasks = [
        db.Task(
            key=f"{key}-{kind}", cell=key, workload="w", method="m", kind=kind, status="done", provenance={},
            spec={}, protocol=1, checksum=f"{key}-{kind}",
        )
        for kind in ("train", "loss", "blind")
    ]  # fmt: skip
    results = [
        db.AttackResult(
            task=f"{key}-{attack}", cell=key, attack=attack, attack_version="1", attack_params={}, models=1,
            n_members=9, n_nonmembers=9, auc=auc, roc={},
            valid=True if attack == "blind" else None,
        )
        for attack in ("loss", "blind")
    ]  # fmt: skip
    cell = db.Cell(
        key=key, workload="w", workload_version="1", method="m", method_version="1", params={}, seed=0,
        n_train=9, label=key, protocol=1,
    )  # fmt: skip
    run = db.ModelRun(
        task=f"{key}-train", cell=key, index=0, test_accuracy=accuracy, nonmember_accuracy=accuracy,
        guarantee_kind="none", assumptions=[],
        stats={},
    )  # fmt: skip
    return [cell, *tasks, run, *results]
