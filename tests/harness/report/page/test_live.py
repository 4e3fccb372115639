"""The live page against a stand-in for `privbench serve`: newer data without reloading."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness.report.page.html import encode_data, page_data, render_page
from harness.report.reading import Reading
from tests.harness.report.browser import Visit, choose, points

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

RUNNING = {"key": "ab12", "label": "dp-sgd ε=4", "phase": "train", "done": 30, "total": 120}
SWEEP = {
    "sweep": "first",
    "tasks": 10,
    "done": 3,
    "failed": 1,
    "running": 2,
    "waiting": 4,
    "backend": "local",
}


class Server:
    """Serves one reading's page, its data with an ETag, and progress; counts the requests."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.version = 1
        self.progress: dict[str, Any] = {"sweeps": [], "running": []}
        self.broken = False
        self.asked: list[tuple[str, int]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = server.respond(self.path, self.headers.get("If-None-Match"))
                server.asked.append((self.path, status))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("ETag", f'"{server.version}"')
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def respond(self, path: str, tag: str | None) -> tuple[int, str, bytes]:
        if self.broken or urlsplit(path).query != "token=secret":
            return 503, "text/plain", b""
        match urlsplit(path).path:
            case "/":
                return 200, "text/html", render_page(self.reading, live=True).encode()
            case "/progress.json":
                return 200, "application/json", json.dumps(self.progress).encode()
            case "/data.json" if tag == f'"{self.version}"':
                return 304, "application/json", b""
            case "/data.json":
                return 200, "application/json", encode_data(page_data(self.reading)).encode()
        return 404, "text/plain", b""

    def turn_to(self, reading: Reading) -> None:
        """Serve another reading from now on."""
        self.reading = reading
        self.version += 1

    def statuses(self, path: str) -> list[int]:
        """The status of every response so far."""
        return [status for asked, status in list(self.asked) if asked.startswith(path)]


@pytest.fixture
def serve() -> Iterator[Any]:
    servers: list[Server] = []

    def start(reading: Reading) -> Server:
        servers.append(Server(reading))
        return servers[-1]

    yield start
    for server in servers:
        server.http.shutdown()
        server.http.server_close()


def visit(browser: Any, server: Server) -> Visit:
    return Visit(browser, f"{server.address}/?token=secret", own=(server.address,))


def await_requests(page: Any, server: Server, path: str, count: int) -> None:
    """Wait for this many more requests of the page."""
    before = len(server.statuses(path))
    for _ in range(600):
        if len(server.statuses(path)) >= before + count:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"the page no longer asks for {path}")


@pytest.mark.slow
def test_new_rows_appear_and_the_choices_and_the_focus_stay(
    browser: Any, serve: Any, row: Any, reading: Any
) -> None:
    rows = [row(epsilon=None, method="sgd", mu=0.8), row(epsilon=4.0), row(epsilon=1.0, attack="loss")]
    server = serve(reading(rows))
    found = visit(browser, server)
    page = found.page
    page.evaluate("window.sameDocument = true")
    choose(page, "Leakage", "auc")
    choose(page, "Attack", "lira")
    page.get_by_role("checkbox", name="sgd", exact=True).uncheck()
    page.locator("#table td button").press("Enter")
    page.locator("#table td button").focus()
    server.turn_to(reading([*rows, row(epsilon=8.0, mu=0.4), row(epsilon=2.0, method="dpis", mu=0.3)]))
    sync_api.expect(page.locator("#table td button")).to_have_text(["dp-sgd ε=4", "dp-sgd ε=8", "dpis ε=2"])
    sync_api.expect(points(page)).to_have_count(3 + 1)  # the ring around the chosen one
    assert page.evaluate("window.sameDocument"), "not reloaded"
    assert page.locator("#leakage").input_value() == "auc"
    assert not page.get_by_role("checkbox", name="sgd", exact=True).is_checked()
    assert page.get_by_role("checkbox", name="dpis").is_checked()
    assert page.locator("#point h3").inner_text() == "dp-sgd ε=4"
    assert page.evaluate("document.activeElement.dataset.mark") == "row digits-mlp/dp-sgd ε=4/lira"
    found.close()


def test_progress_is_live_and_the_first_result_fills_the_page(
    browser: Any, serve: Any, row: Any, reading: Any
) -> None:
    server = serve(reading([]))
    found = visit(browser, server)
    page = found.page
    note = page.locator("#progress-note")
    sync_api.expect(note).to_contain_text("No sweep in this store yet")
    assert "privbench quickstart" in page.locator("#notice").inner_text()
    assert not page.locator("#controls").is_visible()
    server.progress = {"sweeps": [SWEEP], "running": [RUNNING]}
    sync_api.expect(note).to_have_text("1 sweep running.")
    assert page.locator("#sweeps").inner_text().split("\n") == [
        *("first", "3 of 10 tasks, 1 failed; 2 running, 4 waiting; local")
    ]
    bar = page.get_by_role("progressbar", name="Tasks of first")
    assert bar.evaluate("bar => [bar.value, bar.max]") == [4, 10]
    assert page.locator("#running").inner_text().split("\n")[-1] == "30 of 120"
    server.progress = {"sweeps": [SWEEP | {"done": 9, "running": 0, "waiting": 0}], "running": []}
    server.turn_to(reading([row()]))
    sync_api.expect(note).to_have_text("All sweeps have finished.")
    sync_api.expect(page.locator("#running li")).to_have_count(0)
    assert page.locator("#over summary").inner_text() == "Finished: 1 sweep"
    sync_api.expect(points(page)).to_have_count(1)
    assert not page.locator("#notice").is_visible()
    found.close()


def test_nothing_is_sent_twice_and_a_lost_server_is_reported_and_retried(
    browser: Any, serve: Any, row: Any, reading: Any
) -> None:
    server = serve(reading([row()]))
    found = visit(browser, server)
    away = found.page.locator("#away")
    await_requests(found.page, server, "/data.json", 3)
    assert server.statuses("/data.json")[:3] == [200, 304, 304]
    assert not away.is_visible()
    server.broken = True
    sync_api.expect(away).to_contain_text("The server does not respond (status 503)")
    sync_api.expect(points(found.page)).to_have_count(1)
    server.broken = False
    sync_api.expect(away).to_be_hidden()
    found.troubles = [trouble for trouble in found.troubles if "503" not in trouble]  # the browser's own line
    found.close()
