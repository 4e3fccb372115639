"""`privbench forget` and `report --sweep`, as a user types them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Task
from harness.store import Store
from harness.store.forgotten import read_forgotten
from tests.harness.simulated import attack, cells, fill, fill_findings, sweep_record
from workloads.errors import SpecError, UnknownName

LINEAR, MLP = cells("digits-linear"), cells("digits-mlp")
KINDS = ("frontier", "overhead", "calibration", "compare", "audit", "attributes", "reproduce", "all")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store.open(tmp_path_factory.mktemp("filled") / "store", create=True)
    fill(store)
    fill_findings(store)
    store.write_sweep(sweep_record("first", *(Task("train", each) for each in LINEAR)))
    store.write_sweep(sweep_record("audited", Task("train", MLP[1]), attack(MLP[1], "audit-one-run")))
    collect(store.path)
    return store.path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "store"))


def call(store: Path, *words: str) -> Any:
    return CliRunner().invoke(app.app, [*words, "--store", str(store)])


def shown(store: Path) -> set[str]:
    return {str(cell) for (cell,) in query(store, "select distinct cell from frontier").rows}


def test_a_cell_is_forgotten_and_brought_back(store: Path) -> None:
    key, before = LINEAR[0].key, shown(store)
    looked = call(store, "forget", key[:12], "--dry-run")
    assert looked.exit_code == 0, looked.output
    assert shown(store) == before and not read_forgotten(Store(store))
    done = call(store, "forget", key[:12], "--why", "wrong data")
    assert done.exit_code == 0 and f"forget --undo {key[:12]}" in done.output
    assert shown(store) == before - {key}
    assert read_forgotten(Store(store))[key].why == "wrong data"
    back = call(store, "forget", "--undo", key, "--json")
    assert json.loads(back.output)["results"][0]["key"] == key
    assert shown(store) == before


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--where", "workload = 'none'"), "--where"),
        (("0123456789",), "CELL"),
        (("--undo", "--where", "true"), "--where"),
        (("--undo", "--why", "no", LINEAR[0].key), "--why"),
        ((), None),
    ],
)
def test_nothing_to_forget_is_refused(store: Path, words: tuple[str, ...], field: str | None) -> None:
    refused = call(store, "forget", *words).exception
    assert isinstance(refused, SpecError) and refused.field == field
    assert not (store / "forgotten").exists()


def test_a_sweep_is_forgotten(store: Path) -> None:
    assert call(store, "forget", "--sweep", "first").exit_code == 0
    assert shown(store).isdisjoint(each.key for each in LINEAR)
    assert isinstance(call(store, "forget", "--sweep", "frist").exception, UnknownName)


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_that_nothing_fits_is_refused(store: Path, tmp_path: Path, kind: str) -> None:
    none = "workload = 'none'"
    refused = call(store, "report", kind, "--where", none, "--out", str(tmp_path / "out")).exception
    assert isinstance(refused, SpecError)
    assert (refused.field, refused.value) == ("--where", none)
    assert not (tmp_path / "out").exists()


def test_an_attack_that_no_row_has_is_refused(store: Path, tmp_path: Path) -> None:
    refused = call(store, "report", "frontier", "--attack", "typo", "--out", str(tmp_path / "out")).exception
    assert isinstance(refused, SpecError)
    assert (refused.field, refused.value) == ("--attack", "typo") and refused.allowed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_that_is_not_there_is_refused(store: Path, kind: str) -> None:
    refused = call(store, "report", kind, "--sweep", "frist").exception
    assert isinstance(refused, UnknownName) and "first" in str(refused.allowed)


@pytest.mark.slow
def test_a_report_is_limited_to_a_sweep(store: Path, tmp_path: Path) -> None:
    done = call(store, "report", "frontier", "--sweep", "first", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    text = (tmp_path / "frontier.csv").read_text()
    assert "digits-linear" in text and "digits-mlp" not in text
    both = call(
        store,
        "report",
        "frontier",
        "--sweep",
        "first",
        "--where",
        "workload = 'digits-mlp'",
        "--out",
        str(tmp_path),
    )
    assert isinstance(both.exception, SpecError)
    whole = call(store, "report", "all", "--sweep", "audited", "--out", str(tmp_path))
    assert whole.exit_code == 0, whole.output


def test_theory_has_no_sweep(store: Path) -> None:
    assert isinstance(call(store, "report", "theory", "--sweep", "first").exception, SpecError)


@pytest.mark.parametrize("command", [("query", "select 1\0"), ("report", "frontier", "--where", "\0")])
def test_a_nul_character_is_a_clean_error(store: Path, command: tuple[str, ...]) -> None:
    assert isinstance(call(store, *command).exception, SpecError)
