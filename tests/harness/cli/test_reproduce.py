"""`privbench report reproduce` as a user sees it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.store import Store
from workloads.errors import SpecError, UnknownName


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in which nothing was run and nothing collected."""
    return Store.open(tmp_path / "store", create=True).path


def call(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app.app, ["report", *arguments, "--store", str(store)])


def test_an_overview_of_every_table(store: Path) -> None:
    done = call(store, "reproduce")
    assert done.exit_code == 0, done.output
    assert "dpsur-table-2" in done.output
    assert "508 published lines, 452 runnable, 0 run. 846 numbers: 0 within" in done.output
    assert (store / "reports" / "reproduce.md").is_file()


def test_a_table_shows_every_published_cell(store: Path, tmp_path: Path) -> None:
    done = call(store, "reproduce", "--table", "dpsur-table-2", "--out", str(tmp_path / "here"))
    assert done.exit_code == 0, done.output
    assert done.output.count("not run") == 96 + 1
    assert sorted(file.name for file in (tmp_path / "here").iterdir()) == [
        f"reproduce-dpsur-table-2{end}" for end in (".csv", ".csv-metadata.json", ".md", ".tex")
    ]


@pytest.mark.parametrize(
    ("form", "start"), [("md", "## "), ("latex", "% privbench "), ("csv", "workload,method,figure")]
)
def test_text_for_a_pipe_is_the_text_of_the_file(
    store: Path, form: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    done = call(store, "reproduce", "--table", "pd-sgd-table-12", "--format", form)
    assert done.output.startswith(start)
    suffix = {"md": "md", "latex": "tex", "csv": "csv"}[form]
    file = store / "reports" / f"reproduce-pd-sgd-table-12.{suffix}"
    assert done.output == file.read_text(encoding="utf-8")


def test_what_is_refused(store: Path) -> None:
    unknown = call(store, "reproduce", "--table", "dpsur-2").exception
    assert isinstance(unknown, UnknownName)
    assert "pd-sgd-table-2" in str(unknown)
    other = call(store, "frontier", "--table", "dpsur-table-2").exception
    assert isinstance(other, SpecError)
    assert "belong to `report reproduce`" in str(other)
    assert call(store, "reproduce", "--format", "word").exit_code == 2
    drawn = call(store, "baseline", "--columns", "2").exception
    assert isinstance(drawn, SpecError)
    assert "draws no figure" in str(drawn)
    table = call(store, "baseline", "--table", "dpsur-table-2").exception
    assert isinstance(table, SpecError)
    assert "--table belongs to `report reproduce`" in str(table)


def test_the_private_baseline_beside_published_lines(store: Path) -> None:
    done = call(store, "baseline")
    assert done.exit_code == 0, done.output
    assert "0 cells, 0 of them weak" in done.output
    assert (store / "reports" / "baseline.csv").is_file()
    assert call(store, "baseline", "--format", "md").output.startswith("## The private baseline")
