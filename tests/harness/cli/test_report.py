"""`privbench report`: the options that shape its files."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

import db
from harness.cli import app
from harness.store import Store
from workloads.errors import SpecError


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an empty database."""
    opened = Store.open(tmp_path_factory.mktemp("report") / "store", create=True)
    db.open_database(opened.database).dispose()
    return opened.path


def call(store: Path, *options: str) -> Any:
    return CliRunner().invoke(app.app, ["report", *options, "--store", str(store)])


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "pixels"), [("1", 990), ("2", 2100)])
def test_figures_are_as_wide_as_the_columns_of_a_paper(
    store: Path, tmp_path: Path, columns: str, pixels: int
) -> None:
    done = call(store, "overhead", "--columns", columns, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert imread(tmp_path / "overhead.png").shape[1] == pixels, "3.3 or 7 inches at 300 dots"
    assert sorted(done.output.split()) == sorted(str(file) for file in tmp_path.iterdir())


def test_text_has_no_columns(store: Path) -> None:
    refused = call(store, "reproduce", "--columns", "2").exception
    assert isinstance(refused, SpecError) and "--columns" in str(refused)
    assert call(store, "overhead", "--columns", "3").exit_code == 2
