"""`collect`, `query` and `report` on a database outside its store, and every output format."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.results.collect import collect
from harness.store import Store
from tests.harness.simulated import fill
from workloads.errors import SpecError, StoreError


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store.open(tmp_path_factory.mktemp("filled") / "store", create=True)
    fill(store)
    collect(store.path)
    return store.path


@pytest.fixture
def elsewhere(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a database and no store."""
    monkeypatch.chdir(tmp_path)
    assert invoke("collect", "--store", str(filled), "--database", "results.duckdb").exit_code == 0
    return tmp_path / "results.duckdb"


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app.app, list(arguments))


@pytest.mark.parametrize("form", ["table", "csv", "json", "parquet"])
def test_a_result_is_written_in_every_format(filled: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"answer.{form}"
    sql = "select workload, label, auc from frontier order by all"
    done = invoke("query", sql, "--format", form, "--out", str(out), "--store", str(filled))
    assert (done.exit_code, done.output) == (0, f"13 rows written to {out}\n")
    read: dict[str, Callable[[], list[Any]]] = {
        "table": lambda: out.read_text().splitlines()[2:-1],
        "csv": lambda: list(csv.DictReader(out.read_text().splitlines())),
        "json": lambda: json.loads(out.read_text()),
        "parquet": lambda: pq.read_table(out).to_pylist(),
    }
    rows = read[form]()
    assert len(rows) == 13
    if form != "table":
        assert {row["workload"] for row in rows} == {"digits-linear", "digits-mlp"}


def test_a_file_that_cannot_be_written_is_reported(filled: Path, tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        out = str(tmp_path / "no" / "folder")
        done = invoke("query", "select 1", "--format", form, "--out", out, "--store", str(filled))
        assert isinstance(done.exception, SpecError)
        assert "--out" in str(done.exception)


@pytest.mark.slow
def test_a_database_can_be_queried_without_its_store(elsewhere: Path) -> None:
    sql = "select count(*) as n from frontier"
    done = invoke("query", sql, "--format", "json", "--database", str(elsewhere))
    assert json.loads(done.output) == [{"n": 13}]
    done = invoke("query", "select * from steps", "--database", str(elsewhere))
    assert isinstance(done.exception, SpecError)
    assert "leave --database out" in str(done.exception)


@pytest.mark.slow
def test_a_report_without_a_store_goes_to_reports(elsewhere: Path) -> None:
    done = invoke("report", "overhead", "--database", str(elsewhere))
    assert done.exit_code == 0, done.exception
    assert (elsewhere.parent / "reports" / "overhead.png").is_file()
    assert [each.name for each in elsewhere.parent.iterdir() if each.is_dir()] == ["reports"]
    done = invoke("report", "reconstructions", "--database", str(elsewhere))
    assert isinstance(done.exception, SpecError)


def test_a_mistake_in_a_condition_is_reported_with_the_nearest_name(filled: Path, tmp_path: Path) -> None:
    where = ("report", "frontier", "--where", "acuracy > 0.5", "--store", str(filled), "--out", str(tmp_path))
    problem = str(invoke(*where).exception)
    assert '"acuracy" not found' in problem
    assert '"accuracy"' in problem
    assert "views: " in problem
    assert "LINE" not in problem
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_another_store_does_not_take_a_database_over(elsewhere: Path, filled: Path) -> None:
    other = Store.open(elsewhere.parent / "other", create=True)
    done = invoke("collect", "--store", str(other.path), "--database", str(elsewhere))
    assert isinstance(done.exception, StoreError)
    assert "another store" in str(done.exception)
    moved = shutil.copytree(filled, elsewhere.parent / "moved")
    done = invoke("collect", "--store", str(moved), "--database", str(elsewhere), "--json")
    assert json.loads(done.output)["new"] == 0


@pytest.mark.parametrize(
    "url", ["mysql://me:secret@host/db", "postgresql+psycopg://me:secret@/db?host=/nowhere", "://secret"]
)
def test_a_database_that_cannot_be_used_is_reported_without_its_password(filled: Path, url: str) -> None:
    for command in (("collect", "--store", str(filled)), ("query", "select 1")):
        done = invoke(*command, "--database", url)
        assert isinstance(done.exception, StoreError)
        assert "secret" not in str(done.exception)
