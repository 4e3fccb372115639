"""`privbench serve --database` on a real PostgreSQL: with a store that is collected into it, and alone."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.results.query import query
from harness.spec import Task
from harness.store import Store
from tests.harness.postgres import running_server
from tests.harness.report.browser import CHROMIUM, Visit, chromium, points
from tests.harness.serving import ask, served
from tests.harness.simulated import cell, fill, publish, training

pytestmark = pytest.mark.postgres

PATIENCE_SECONDS = 60
COUNT = "select count(*) from task"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    opened = Store.open(tmp_path_factory.mktemp("team") / "store", create=True)
    fill(opened)
    return opened


@pytest.fixture(scope="module")
def collected(server: str, store: Store) -> Iterator[str]:
    """The address of a server that collects the store into the database."""
    with served(store.path, "--database", server) as address:
        yield address


def data_of(address: str) -> Any:
    return json.loads(ask(address + "data.json").body)


@pytest.mark.slow
def test_a_store_is_collected_into_the_database_and_shown(collected: str, server: str, store: Store) -> None:
    tasks = sum(1 for _ in store.tasks.glob("*/*/result.json"))
    assert query(server, COUNT).rows == [(tasks,)]
    assert sorted(data_of(collected)["defaults"]) == ["digits-linear", "digits-mlp"]
    assert json.loads(ask(collected + "progress.json").body) == {"sweeps": [], "running": []}
    assert not store.database.exists(), "the rows are on the server alone"


def test_a_new_result_reaches_the_database_and_the_page(collected: str, server: str, store: Store) -> None:
    before = len(data_of(collected)["views"]["runs"]["rows"])
    task = Task("train", cell("digits-mlp", "dp-sgd", epsilon=5.0))
    publish(store, task, training(task, 0.7))
    end = time.monotonic() + PATIENCE_SECONDS
    while len(data_of(collected)["views"]["runs"]["rows"]) == before and time.monotonic() < end:
        time.sleep(0.2)
    assert len(data_of(collected)["views"]["runs"]["rows"]) == before + 1
    assert query(server, f"{COUNT} where key = '{task.key}'").rows == [(1,)]


@pytest.mark.slow
def test_a_database_alone_is_shown_without_progress(
    collected: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served(None, "--database", server) as address:
        assert data_of(address)["views"] == data_of(collected)["views"]
        assert json.loads(ask(address + "progress.json").body) == {"sweeps": None, "running": []}
        for path in ("", "data.json", "progress.json"):
            assert b"secret" not in ask(address + path).body, "the password of the URL"
    assert not list(tmp_path.iterdir()), "nothing was written"


@pytest.mark.slow
@pytest.mark.browser
def test_its_page_draws_the_rows_and_shows_no_progress(collected: str, server: str) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with served(None, "--database", server) as address, chromium() as browser:
        visit = Visit(browser, address, own=(address,))
        points(visit.page).first.wait_for()
        visit.page.wait_for_timeout(2500)  # it has requested progress by then
        assert visit.page.locator("#progress").is_hidden()
        assert visit.page.locator("#away").is_hidden()
        visit.close()
