"""The examples of docs/querying.md and docs/notebook.md, run on a store filled by a sweep."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.report import write_page
from harness.results.collect import collect
from harness.results.query import query
from harness.store import Store
from harness.store.tunes import write_tune
from tests.harness.tuned import make_tune

Blocks = list[tuple[str, str, str, str]]

# One process of pytest-xdist runs them all, so that the examples are trained once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("docs")]

MAY_BE_EMPTY = ("from failures", "tpr_at_0p1pct is null", "sweep = 'first'")

# A reader with DuckDB and without privbench.
ELSEWHERE = """
import sys
sys.modules.update(dict.fromkeys(("harness", "db", "workloads", "methods")))
import duckdb
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    found = connection.execute("select view_name from duckdb_views() where not internal").fetchall()
    for (view,) in found:
        print(view, len(connection.execute(f"select * from {view}").fetchall()))
"""


def statements(blocks: Blocks) -> list[str]:
    return [
        text
        for page, language, file, text in blocks
        if (page, language, file) == ("docs/querying.md", "sql", "")
    ]


def test_every_query_has_a_result(store: Path, blocks: Blocks, tmp_path: Path) -> None:
    tuned = Store(shutil.copytree(store, tmp_path / "tuned"))
    write_tune(tuned, make_tune(trials=2, studies=2))
    collect(tuned.path)
    asked = statements(blocks)
    assert len(asked) >= 12
    for sql in asked:
        answer = query(tuned.path, sql)
        assert answer.columns
        assert answer.rows or any(part in sql for part in MAY_BE_EMPTY), sql


def test_the_notebook_runs(
    store: Path,
    blocks: Blocks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "privbench-store").symlink_to(store)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for page, language, _, text in blocks:
        if (page, language) == ("docs/notebook.md", "python"):
            exec(compile(text, page, "exec"), names)
    assert len(names["frontier"]) > 0
    assert names["accuracy"]["count"].tolist() == [3]
    assert len(names["steps"]) > 20
    assert set(names["scores"].columns) == {"target", "record", "score", "member"}
    assert names["roc"]["tpr"].iloc[-1] == 1.0
    strongest = names["frontier"].query("attack == 'strongest'")["attack_task"].iloc[0]
    assert sorted(set(names["store"].scores(strongest)["attack"])) == ["lira", "loss", "rmia"]
    assert "tasks in the database" in capsys.readouterr().out


def test_the_file_needs_nothing_of_ours(store: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(store / "privbench.duckdb", tmp_path / "copied.duckdb"))
    done = subprocess.run(
        [sys.executable, "-I", "-c", ELSEWHERE, str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert int(counts["frontier"]) == query(store, "select count(*) from frontier").rows[0][0] > 0
    assert str(store).encode() not in file.read_bytes()


def test_a_copied_store_can_be_queried_and_reported(store: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(store, tmp_path / "another place")
    count = "select count(*), count(distinct task) from steps"
    assert query(copied, count).rows == query(store, count).rows
    (page,) = write_page(copied, tmp_path / "reports")
    assert "another place" not in page.read_text(encoding="utf-8")
