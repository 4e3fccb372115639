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
@pytest.mark.parametrize(("columns", "pixels"), [("1", 900), ("2", 2100)])
def test_figures_are_as_wide_as_the_columns_of_a_paper(
    store: Path, tmp_path: Path, columns: str, pixels: int
) -> None:
    done = call(store, "overhead", "--columns", columns, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert imread(tmp_path / "overhead.png").shape[1] == pixels, "3 or 7 inches at 300 dots"
    assert sorted(done.output.split()) == sorted(str(file) for file in tmp_path.iterdir())


def test_text_has_no_columns(store: Path) -> None:
    refused = call(store, "reproduce", "--columns", "2").exception
    assert isinstance(refused, SpecError) and "--columns" in str(refused)
    assert call(store, "overhead", "--columns", "3").exit_code == 2


@pytest.mark.parametrize(
    ("options", "value", "allowed"),
    [
        (("frontier", "--panel", "roc,nonsense"), "nonsense", ("frontier", "auc", "roc", "time", "memory")),
        (("overhead", "--panel", "roc"), "roc", ("step", "training", "memory")),
        (("audit", "--panel", "roc"), "roc", ()),
        (("frontier", "--panel", "roc,,auc"), "roc,,auc", ()),
    ],
)
def test_an_unknown_panel_is_refused_with_the_known_ones(
    store: Path, options: tuple[str, ...], value: str, allowed: tuple[str, ...]
) -> None:
    refused = call(store, *options).exception
    assert isinstance(refused, SpecError)
    assert (refused.value, refused.allowed or ()) == (value, allowed)


def test_unknown_columns_are_refused_before_anything_is_written(store: Path, tmp_path: Path) -> None:
    refused = call(store, "overhead", "--columns-of", "cell,nonsense", "--out", str(tmp_path)).exception
    assert isinstance(refused, SpecError)
    assert refused.value == "nonsense"
    assert isinstance(refused.allowed, tuple) and "whole-training" in refused.allowed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_only_figures_with_a_chosen_panel_are_written(store: Path, tmp_path: Path) -> None:
    done = call(store, "frontier", "--panel", "roc", "--columns-of", "cell,auc", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "frontier.png").exists() and not (tmp_path / "frontier-cost.png").exists()
    assert (tmp_path / "frontier.csv").read_text(encoding="utf-8").splitlines() == ["cell,AUC"]


def test_published_numbers_have_columns_to_choose(store: Path, tmp_path: Path) -> None:
    done = call(
        store, "reproduce", "--columns-of", "table,numbers", "--format", "csv", "--out", str(tmp_path)
    )
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "table,numbers"
