"""Data frames from a store; docs/notebook.md is run by tests/docs."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.results.collect import collect
from harness.results.transfer import export_results, import_results
from harness.spec import Task
from harness.store import Store
from privbench import open_store
from tests.harness.simulated import attack, cells, fill, fill_findings
from workloads.errors import SpecError, StoreError, UnknownName


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with everything, and with itself imported."""
    store = Store.open(tmp_path_factory.mktemp("notebook") / "store", create=True)
    fill(store)
    fill_findings(store)
    file = store.path.parent / "friend.zip"
    export_results(store.path, file)
    import_results(store.path, file)
    collect(store.path)
    return store.path


@pytest.mark.slow
def test_every_view_is_a_frame(path: Path) -> None:
    store = open_store(path)
    views = ("frontier", "runs", "overhead", "bench", "audit", "attribute", "reconstruction", "reproduction")
    for view in (*views, "failures", "comparison", "tried"):
        frame = getattr(store, view)()
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) == len(store.query(f"select 1 from {view}")) > 0
    assert len(store.conflicts()) == 0
    assert set(store.frontier("origin = '' and method = 'sgd' -- only")["method"]) == {"sgd"}


@pytest.mark.slow
def test_json_comes_as_values(path: Path) -> None:
    runs = open_store(path).runs("method = 'dp-sgd'")
    assert {params["lr"] for params in runs["params"]} == {0.5}
    assert runs["epsilon"].isna().any()


def test_files_of_ours_and_of_others_are_found_by_their_keys(path: Path) -> None:
    store = open_store(str(path))
    training = Task("train", cells("digits-mlp")[0]).key
    judged = attack(cells("digits-mlp")[0], "loss").key
    for prefix in ("", "friend:"):
        steps = store.steps(prefix + training[:12])
        assert sorted(steps["step"]) == list(range(30))
        assert set(steps["task"]) == {prefix + training}
        assert store.roc(prefix + judged).to_dict("list") == {"fpr": [0.0, 1.0], "tpr": [0.0, 1.0]}
    with pytest.raises(StoreError, match="no scores"):
        store.scores(judged)
    with pytest.raises(StoreError, match="no ROC"):
        store.roc(training)
    with pytest.raises(UnknownName, match="friend"):
        store.roc(f"fiend:{judged}")


def test_a_database_alone_has_the_views_and_not_the_files(path: Path) -> None:
    store = open_store(f"duckdb:///{path}/privbench.duckdb")
    assert len(store.frontier()) == len(open_store(path).frontier())
    with pytest.raises(SpecError, match="open the store"):
        store.steps("abc")


def test_missing_pandas_names_the_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SpecError, match=r"privbench\[notebook\]"):
        open_store(path).frontier()


def test_a_store_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        open_store(tmp_path / "nowhere")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, harness\n"
        "heavy = {'torch', 'duckdb', 'pandas', 'pyarrow', 'numpy', 'sqlalchemy'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
