"""The generated pages of the reference are up to date, and db/views.toml matches the SQL."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import db
import privbench
from tests.docs import reference

Pages = dict[str, str]


@pytest.fixture(scope="module")
def described(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "db/views.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", reference.PAGES)
def test_a_page_is_up_to_date(page: str, pages: Pages) -> None:
    assert pages[page] == reference.PAGES[page](), "run `make docs`"


def test_every_view_is_described_and_no_column_that_is_not_there(described: dict[str, Any]) -> None:
    described = {**described}
    shared = described.pop("shared")
    columns = reference.view_columns()
    assert described.keys() == columns.keys()
    strays = {name: view.get("columns", {}).keys() - {*columns[name]} for name, view in described.items()}
    assert {name: each for name, each in strays.items() if each} == {}
    shown = [name for name, view in described.items() if "columns" in view]
    used = {column for name in shown for column in columns[name] if column not in described[name]["columns"]}
    assert shared.keys() == used


def test_every_view_of_the_page_is_a_method_of_results(described: dict[str, Any]) -> None:
    shown = [name for name, view in described.items() if "columns" in view]
    assert [name for name in shown if not callable(getattr(privbench.Results, name, None))] == []


def test_a_column_that_is_not_described_is_an_error(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (root / "db/views.toml").read_text(encoding="utf-8")
    (tmp_path / "db").mkdir()
    (tmp_path / "db/views.toml").write_text(re.sub(r"^auc = .*\n", "", text, flags=re.MULTILINE))
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    with pytest.raises(KeyError, match="auc"):
        reference.views()


def test_the_page_of_views_names_every_table(pages: Pages) -> None:
    tables = {*db.Base.metadata.tables} - {"privbench_schema"}
    assert {name for name in tables if f"| `{name}` |" not in pages["docs/views.md"]} == set()
