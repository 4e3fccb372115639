"""`privbench serve` as a process, queried over HTTP; and the refresh of its rows."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app, snapshot
from harness.cli.server import allowed_names, is_local
from harness.cli.snapshot import LiveProgress, LiveRows, newest_result
from harness.jobs.loop import Stop, run_task
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.store import Store
from tests.harness.report.browser import CHROMIUM, Visit, chromium, points
from tests.harness.serving import ask, served
from tests.harness.simulated import sweep_record
from workloads.errors import SpecError, StoreError

TOKEN = "a-token-of-some-length"
SWEEP = {
    "models": 2,
    "attacks": ["loss"],
    "grid": [{"workload": "digits-linear", "method": "sgd", "steps": 20}],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with a small sweep, every task of it done."""
    opened = Store.open(tmp_path_factory.mktemp("serve") / "store", create=True)
    plan = make_plan(*read_sweep(SWEEP, "small"), opened)
    opened.add(*plan.tasks)
    opened.write_sweep(sweep_record("small", *plan.tasks))
    for task in sorted(plan.tasks, key=lambda task: task.kind == "attack"):
        assert run_task(opened, task.key, Stop()) == "done"
    return opened


@pytest.fixture(scope="module")
def address(store: Store) -> Iterator[str]:
    with served(store.path) as found:
        yield found


@pytest.mark.slow
def test_the_page_and_its_data(address: str) -> None:
    page = ask(address)
    assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"data-live" in page.body
    data = ask(address + "data.json")
    assert data.headers["Content-Type"] == "application/json"
    assert "digits-linear" in json.loads(data.body)["defaults"]


@pytest.mark.slow
def test_unchanged_data_are_not_resent(address: str) -> None:
    tag = ask(address + "data.json").headers["ETag"]
    for known in (tag, f'"other", {tag}'):
        again = ask(address + "data.json", If_None_Match=known)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert ask(address + "data.json", If_None_Match='"other"').status == 200


@pytest.mark.slow
def test_progress_counts_the_sweep(address: str) -> None:
    found = json.loads(ask(address + "progress.json").body)
    (sweep,) = found["sweeps"]
    assert (sweep["sweep"], sweep["tasks"], sweep["done"], sweep["failed"]) == ("small", 5, 5, 0)
    assert found["running"] == []


@pytest.mark.parametrize("path", ["", "data.json", "progress.json", "nothing"])
def test_every_response_has_the_headers(address: str, path: str) -> None:
    headers = ask(address + path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert ("connect-src 'self'" in policy) == (path == ""), "only the page asks for anything"
    assert headers["Access-Control-Allow-Origin"] is None and headers["Server"] is None


def test_only_get_and_head(address: str) -> None:
    head = ask(address + "data.json", "HEAD")
    assert head.status == 200 and head.body == b"" and head.headers["ETag"]
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ask(address, method).status == 405


@pytest.mark.parametrize(
    "path", ["store.json", "privbench.duckdb", "tasks/", "sweeps/small.json", "..%2fstore.json", "%2e%2e/x"]
)
def test_no_file_of_the_store_is_served(address: str, path: str) -> None:
    assert ask(address + path).status == 404


def test_a_foreign_name_for_this_machine_is_refused(address: str) -> None:
    port = address.rstrip("/").rpartition(":")[2]
    for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example"):
        assert ask(address + "data.json", Host=name).status == 400
    for name in (f"localhost:{port}", f"127.0.0.1:{port}"):
        assert ask(address + "data.json", Host=name).status == 200


@pytest.mark.slow
def test_a_token_is_required(store: Store) -> None:
    with served(store.path, "--token", TOKEN, "--host", "0.0.0.0") as found:
        port, _, query = found.rpartition(":")[2].partition("/")
        assert query == f"?token={TOKEN}"
        address = f"http://127.0.0.1:{port}/"
        for path in ("", "data.json", "progress.json", "nothing"):
            refused = ask(address + path)
            assert refused.status == 401 and b"small" not in refused.body
            assert refused.headers["WWW-Authenticate"] == "Bearer"
            assert refused.headers["Cache-Control"] == "no-store"
            known = ask(f"{address}{path}?token={TOKEN}").status
            assert known == (404 if path == "nothing" else 200)
        assert ask(address, Authorization=f"Bearer {TOKEN}", Host="a-name-of-mine").status == 200
        for wrong in (f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer", "Bearer \xe9"):
            assert ask(address, Authorization=wrong).status == 401
        assert ask(f"{address}?token=%ff").status == 401


# -- wrong use -------------------------------------------------------------------------------------


def refusal(*options: str) -> str:
    done = CliRunner().invoke(app.app, ["serve", *options])
    assert isinstance(done.exception, SpecError | StoreError), done.output
    return str(done.exception)


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    assert "--token auto" in refusal("--host", "0.0.0.0", "--store", str(tmp_path))
    assert "at least 16" in refusal("--token", "short", "--store", str(tmp_path))


def test_a_missing_store(tmp_path: Path) -> None:
    assert "no store at" in refusal("--store", str(tmp_path / "none"), "--port", "0")


def test_a_port_that_is_taken(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal("--store", str(store.path), "--port", str(port))
    assert f"port {port}" in message and "--port" in message


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *[("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True)],
        *[("0.0.0.0", False), ("::", False), ("192.168.0.2", False), ("example.org", False)],
        *[("localhost.example.org", False), ("", False)],
    ],
)
def test_which_addresses_are_this_machine_s_own(host: str, local: bool) -> None:
    assert is_local(host) is local
    assert ("*" in allowed_names(host)) is not local


# -- fresh rows ------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def copy(store: Store, tmp_path: Path) -> Store:
    """A copy of the store with the sweep's trainings, neither attacked nor collected."""
    other = Store.open(tmp_path / "copy", create=True)
    for folder in store.folders():
        if store.task(folder.name).kind == "train":
            link_task(store, other, folder.name)
    other.write_sweep(store.sweep("small"))
    return other


def link_task(store: Store, other: Store, key: str) -> None:
    other.folder(key).mkdir(parents=True)
    for file in store.folder(key).iterdir():
        if file.is_file():
            (other.folder(key) / file.name).hardlink_to(file)


def attacks(store: Store) -> list[str]:
    names = [folder.name for folder in store.folders()]
    return [key for key in names if store.task(key).kind == "attack"]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_new_result_is_collected_before_it_is_shown(store: Store, copy: Store) -> None:
    rows = LiveRows(copy)
    before = rows.first()
    assert before.reading.overhead and not before.reading.frontier
    assert rows.latest() is before, "nothing is new"
    for key in attacks(store):
        link_task(store, copy, key)
    after = rows.latest()
    assert {row["attack"] for row in after.reading.frontier} == {"loss", "rmia"}
    assert after.tag != before.tag


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_database_in_use_is_no_error(store: Store, copy: Store, caplog: pytest.LogCaptureFixture) -> None:
    rows = LiveRows(copy)
    before = rows.first()
    for key in attacks(store):
        link_task(store, copy, key)
    hold = (
        "import sys, duckdb; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(copy.database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert rows.latest() is before
        holder.communicate()
    assert "in use" in caplog.text
    assert rows.latest().reading.frontier


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_database_that_was_deleted_is_rebuilt(copy: Store) -> None:
    rows = LiveRows(copy)
    before = rows.first()
    copy.database.unlink()
    assert rows.latest() is before
    assert rows.latest().reading.overhead
    assert copy.database.exists()


@pytest.mark.slow
def test_a_request_during_a_collection_gets_the_last_rows(
    copy: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PAUSE_SECONDS", 0.0)
    rows = LiveRows(copy)
    before = rows.first()
    begun, go_on = threading.Event(), threading.Event()

    def slow(store: Store) -> tuple[int, int]:
        begun.set()
        assert go_on.wait(120)
        return newest_result(store)

    monkeypatch.setattr(snapshot, "newest_result", slow)
    other = threading.Thread(target=rows.latest)
    other.start()
    assert begun.wait(120)
    assert rows.latest() is before
    go_on.set()
    other.join()


@pytest.mark.slow
def test_another_database_is_filled_and_read(store: Store, tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'team.duckdb'}"
    assert LiveRows(store, url).first().reading.frontier
    assert LiveRows(None, url).first().reading.frontier
    with pytest.raises(StoreError):
        LiveRows(None, f"duckdb:///{tmp_path / 'none.duckdb'}").first()
    with pytest.raises(ValueError, match="give one"):
        LiveRows(None)


def test_progress_reads_what_is_new(store: Store, copy: Store) -> None:
    progress = LiveProgress(copy)
    (before,) = progress.look()["sweeps"]
    assert (before["done"], before["waiting"]) == (2, 3)
    for key in attacks(store):
        link_task(store, copy, key)
    (after,) = progress.look()["sweeps"]
    assert (after["done"], after["waiting"]) == (5, 0)


def test_a_resubmitted_sweep_is_recounted(copy: Store) -> None:
    progress = LiveProgress(copy)
    assert progress.look()["sweeps"][0]["tasks"] == 5
    record = copy.sweep("small")
    copy.write_sweep(record.model_copy(update={"tasks": record.tasks[:1]}))
    assert progress.look()["sweeps"][0]["tasks"] == 1


@pytest.mark.slow
def test_a_damaged_record_is_left_out(copy: Store) -> None:
    (copy.sweeps / "broken.json").write_text("{")
    assert [sweep["sweep"] for sweep in LiveProgress(copy).look()["sweeps"]] == ["small"]


# -- in a browser ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
def test_rows_of_a_running_sweep_come_without_reloading(lab: Any) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    store = str(lab.store.path)
    sweep = ["--workload", "digits-linear", "--method", "sgd", "--models", "2", "--attack", "loss"]
    run = [
        sys.executable,
        "-m",
        "harness.cli",
        "run",
        *sweep,
        "--set",
        "steps=20",
        "--slots",
        "1",
        "--store",
        store,
    ]
    patience_ms = 300_000
    with served(lab.store.path) as address, chromium() as browser:
        visit = Visit(browser, address, (address,))
        page = visit.page
        sync_api.expect(page.locator("#notice")).to_contain_text("privbench quickstart")
        sync_api.expect(page.locator("#progress-note")).to_contain_text("No sweep in this store yet")
        page.evaluate("window.opened = 'once'")
        done = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            sync_api.expect(page.locator("#sweeps .sweep")).to_have_count(1, timeout=patience_ms)
            sync_api.expect(points(page)).to_have_count(1, timeout=patience_ms)
            sync_api.expect(page.locator("#progress-note")).to_have_text(
                "All sweeps have finished.", timeout=patience_ms
            )
            assert page.evaluate("window.opened") == "once"
            _, message = done.communicate(timeout=300)
            assert done.returncode == 0, message
        finally:
            done.kill()
            done.wait()
        visit.close()
