"""Reading from a real database: three cells, two attacks, one failed task."""

import math
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy.orm import Session

import db
from harness.report import write_all, write_frontier, write_overhead, write_page
from harness.report.reading import group_failures, name_groups, read
from harness.store import Store
from workloads.errors import SpecError, StoreError

WRITERS = [write_frontier, write_overhead, write_page, write_all]


def cell_rows(epsilon: float | None, n_train: int = 50) -> list[db.Base]:
    """A cell of two models, attacked twice and found sound."""
    method = "sgd" if epsilon is None else "dp-sgd"
    key = f"{method}-{epsilon}-{n_train}"
    label = method if epsilon is None else f"dp-sgd ε={epsilon:g}"
    rows: list[db.Base] = [
        db.Cell(
            key=key, workload="digits-mlp", workload_version="1", method=method, method_version="1",
            params={"lr": 0.5}, epsilon_asked=epsilon, seed=0, n_train=n_train, label=label,
            configuration=key, levels={}, protocol=1, batch_size=8,
            role="plain-baseline" if epsilon is None else "private-baseline",
        )
    ]  # fmt: skip
    for index in range(2):
        name = f"{key}-{index}"
        rows.append(task_row(name, key, method, index=index))
        rows.append(
            db.ModelRun(
                task=name, cell=key, index=index, test_accuracy=0.9 + 0.02 * index, train_accuracy=1.0,
                nonmember_accuracy=0.9 + 0.02 * index,
                guarantee_kind="none" if epsilon is None else "approximate-dp", epsilon=epsilon,
                assumptions=[], stats={}, step_seconds_median=0.01 if epsilon is None else 0.04,
                step_seconds_p25=0.01, step_seconds_p75=0.05, extra_memory_bytes=100,
                ceiling_by=None if epsilon is None else "pld twice",
                ceiling_curve=None if epsilon is None else {"fpr": [0.0, 1.0], "tpr": [index / 10, 1.0]},
            )
        )  # fmt: skip
    for attack, auc in (("loss", 0.6), ("lira", 0.7), ("blind", 0.5)):
        name = f"{key}-{attack}"
        rows.append(task_row(name, key, method, attack=attack))
        rows.append(
            db.AttackResult(
                task=name, cell=key, attack=attack, attack_version="1", attack_params={}, models=2,
                n_members=100, n_nonmembers=100, auc=auc, auc_low=auc - 0.1, auc_high=math.nan,
                tpr_at_10pct=0.2, tpr_at_10pct_low=0.1, tpr_at_10pct_high=0.3,
                valid=True if attack == "blind" else None,
                roc={"fpr": [0.0, 0.5, 1.0], "tpr": [0.0, auc, 1.0]},
            )
        )  # fmt: skip
    return rows


def task_row(name: str, cell: str, method: str, **changes: Any) -> db.Task:
    kind = "attack" if "attack" in changes else "train"
    fields: dict[str, Any] = {"status": "done", "kind": kind, "threads": 1, "device": "cpu"} | changes
    return db.Task(
        key=name, cell=cell, workload="digits-mlp", method=method, provenance={}, spec={}, protocol=1,
        checksum=name, **fields,
    )  # fmt: skip


def make_store(path: Path, rows: list[db.Base]) -> Path:
    store = Store.open(path, create=True)
    engine = db.open_database(store.database)
    with Session(engine) as session:
        session.add_all(rows)
        session.commit()
    engine.dispose()
    return store.path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [*cell_rows(None), *cell_rows(4.0), *cell_rows(1.0)]
    rows.append(task_row("lost", "dp-sgd-1.0-50", "dp-sgd", index=7, status="failed", reason="diverged"))
    return make_store(tmp_path_factory.mktemp("report") / "store", rows)


def test_everything_is_read_and_ordered(store: Path) -> None:
    reading = read(store)
    found = [(row["label"], row["attack"]) for row in reading.frontier]
    assert found == [
        *[("sgd", "lira"), ("sgd", "loss")],
        *[("dp-sgd ε=1", "lira"), ("dp-sgd ε=1", "loss")],
        *[("dp-sgd ε=4", "lira"), ("dp-sgd ε=4", "loss")],
    ]
    first = reading.frontier[0]
    assert first["params"] == {"lr": 0.5}
    assert first["auc_high"] is None, "NaN is no number to draw"
    assert list(reading.rocs[first["attack_task"]].tpr) == [0.0, 0.7, 1.0]
    assert {cell: list(each.tpr) for cell, each in reading.ceilings.items()} == {
        "dp-sgd-1.0-50": [0.1, 1.0],
        "dp-sgd-4.0-50": [0.1, 1.0],
    }, "the highest over the models"
    assert [row["guarantee_kind"] for row in reading.overhead] == ["none", "approximate-dp", "approximate-dp"]
    assert [row["example_overhead"] for row in reading.overhead] == [1.0, 4.0, 4.0]
    assert {row["overhead_by"] for row in reading.overhead} == {"per example"}
    assert [row["reason"] for row in reading.failures] == ["diverged"]
    assert (reading.methods, reading.threads) == (["dp-sgd", "sgd"], [1])
    assert reading.baselines == {"sgd"}
    assert reading.groups == ["digits-mlp"]


def test_a_condition_limits_both_views_but_never_hides_failures_or_moves_colours(store: Path) -> None:
    reading = read(store, "method = 'sgd' -- only the baseline")
    assert {row["label"] for row in reading.frontier} == {"sgd"}
    assert {row["label"] for row in reading.overhead} == {"sgd"}
    assert set(reading.rocs) == {row["attack_task"] for row in reading.frontier}
    assert len(reading.failures) == 1
    assert reading.methods == ["dp-sgd", "sgd"]
    assert "method = 'sgd'" in reading.query


@pytest.mark.slow
def test_a_condition_hides_no_alarm(tmp_path: Path) -> None:
    audit = db.AuditResult(
        task="audit", cell="dp-sgd-4.0-50", attack="audit-one-run", attack_version="1", attack_params={},
        models=2, epsilon=9.0, confidence=0.95, delta=1e-5, trials=100, guesses=40, correct=40, canaries=50,
        copies=1, threat="white-box, adds gradients", epsilon_priced=4.0, alarm=True,
    )  # fmt: skip
    task = task_row("audit", "dp-sgd-4.0-50", "dp-sgd", attack="audit-one-run")
    store = make_store(tmp_path / "store", [*cell_rows(None), *cell_rows(4.0), task, audit])
    reading = read(store, "method = 'sgd'")
    assert {row["label"] for row in reading.frontier} == {"sgd"}
    assert [(row["label"], row["alarm"]) for row in reading.audits] == [("dp-sgd ε=4", True)]


def test_a_condition_on_overhead(store: Path) -> None:
    reading = read(store, "step_seconds_p75 > 0 and epsilon_asked = 4", view="overhead")
    assert [row["label"] for row in reading.overhead] == ["dp-sgd ε=4"]
    assert {row["label"] for row in reading.frontier} == {"dp-sgd ε=4"}


@pytest.mark.parametrize("write", WRITERS)
def test_a_wrong_condition_is_a_spec_error_and_writes_nothing(
    write: Any, store: Path, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="acuracy"):
        write(store, tmp_path / "out", "acuracy > 0.5")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS)
def test_a_report_of_an_empty_database_states_what_to_run(write: Any, tmp_path: Path) -> None:
    files = write(make_store(tmp_path / "store", []), tmp_path / "out")
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix in (".svg", ".html")]
    assert texts
    assert all("privbench quickstart" in text for text in texts)


def test_no_database_is_a_store_error(tmp_path: Path) -> None:
    Store.open(tmp_path / "store", create=True)
    with pytest.raises(StoreError, match="privbench collect"):
        read(tmp_path / "store")


@pytest.mark.slow
def test_all_reports_of_a_store(store: Path, tmp_path: Path) -> None:
    files = write_all(store, tmp_path / "out", "attack = 'lira'")
    names = {file.name for file in files}
    for stem in ("frontier", "frontier-cost", "overhead", "calibration"):
        assert {f"{stem}.{kind}" for kind in ("png", "svg", "pdf")} <= names
    for stem in ("frontier", "hypervolume", "overhead"):
        assert {f"{stem}.{kind}" for kind in ("md", "tex", "csv")} <= names
    assert {"calibration.md", "calibration.tex", "calibration-1.csv", "index.html"} <= names
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(names)
    assert all(file.stat().st_size > 10_000 for file in files if file.suffix in (".png", ".svg", ".html"))


class Counted:
    """A connection of DuckDB that records its statements."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, executed: list[str]) -> None:
        self.connection, self.executed = connection, executed

    def __enter__(self) -> "Counted":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        self.executed.append(sql)
        return self.connection.execute(sql, *values)


@pytest.mark.slow
def test_all_reports_are_one_connection_and_one_transaction(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So all of them show one state of the database."""
    connect, opened = duckdb.connect, list[list[str]]()

    def count(*arguments: Any, **named: Any) -> Any:
        connection = connect(*arguments, **named)
        if not arguments:
            return connection  # in memory: it parses statements
        assert arguments == (str(Store(store).database),)
        opened.append([])
        return Counted(connection, opened[-1])

    monkeypatch.setattr(duckdb, "connect", count)
    write_all(store, tmp_path / "out", "attack = 'lira'")
    (executed,) = opened
    begun = executed.index("begin transaction read only")
    asked = executed[begun + 1 :]
    assert len(asked) > 12
    assert all(sql.split()[0] == "select" for sql in asked), "nothing ends the transaction before its time"
    assert not [sql for sql in executed[:begun] if "frontier" in sql]


def test_a_workload_of_two_sizes_is_two_groups(tmp_path: Path) -> None:
    reading = read(make_store(tmp_path / "store", [*cell_rows(None), *cell_rows(None, n_train=2000)]))
    assert reading.groups == [
        "digits-mlp (version 1, 2,000 members)",
        "digits-mlp (version 1, 50 members)",
    ]
    assert {row["group"] for row in reading.overhead} == set(reading.groups)


def test_groups_of_one_size_keep_their_name(row: Any) -> None:
    rows = [row("digits-mlp"), row("digits-linear", n_train=5)]
    name_groups(rows)
    assert [each["group"] for each in rows] == ["digits-mlp", "digits-linear"]


def test_failures_of_one_cell_and_reason_are_one_entry() -> None:
    one = {"workload": "w", "method": "m", "label": "m ε=1", "kind": "train", "reason": "diverged"}
    failures = [{**one, "message": "first"}, {**one, "message": "second"}, {**one, "reason": "killed"}]
    found = group_failures(failures)
    assert [(each["reason"], each["tasks"], each["message"]) for each in found] == [
        ("diverged", 2, "first"),
        ("killed", 1, None),
    ]
