"""Fetching from a real server on this machine: whole, resumed, or refused with nothing left behind."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from workloads.data.array_cache import Arrays
from workloads.data.dataset import File, Place, Published
from workloads.data.download import fetch
from workloads.data.foreign_files import wrong
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf

CONTENT = np.random.default_rng(5).bytes(300_000)
SUM = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT at /data.bin; can break off early and can ignore ranges."""

    breaks_at: int | None = None
    ranges = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.path == "/page":
            self.answer(200, b"<html>Sign in</html>")
        elif self.path != "/data.bin":
            self.send_error(404)
        elif wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(CONTENT):
                self.send_error(416)
            else:
                self.answer(206, CONTENT[start:])
        else:
            self.answer(200, CONTENT)

    def answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.breaks_at])

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def read(place: Path) -> Arrays:
    if place.read_bytes() != CONTENT:
        raise wrong(place, "the content", "something else")
    return {"x": np.zeros(1)}


def made(*urls: str, md5: str | None = SUM) -> Published:
    file = File("data.bin", urls, md5, len(CONTENT))
    return Published("thing", "a", "b", "c", (Place("thing/data.bin"),), read, (file,))


def quiet(name: str, have: int, total: int | None) -> None:
    """Show no progress."""


def left(shelf: "Shelf") -> list[str]:
    return sorted(str(file.relative_to(shelf.root)) for file in shelf.root.rglob("*"))


def test_fetches_checks_and_shows_progress(shelf: "Shelf", server: Server) -> None:
    seen: list[tuple[str, int, int | None]] = []
    fetch(made(f"{server.url}/data.bin"), lambda *each: seen.append(each))
    assert (shelf.root / "thing/data.bin").read_bytes() == CONTENT
    assert left(shelf) == ["thing", "thing/data.bin"]
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert made().verify().state == "good"


def test_what_is_whole_is_not_refetched(shelf: "Shelf", server: Server) -> None:
    dataset = made(f"{server.url}/data.bin")
    fetch(dataset, quiet)
    fetch(dataset, quiet)
    assert len(server.asked) == 1
    shelf.write("thing/data.bin", CONTENT[:-1] + b"x")
    fetch(dataset, quiet)
    assert (shelf.root / "thing/data.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_transfer_is_resumed(shelf: "Shelf", server: Server, ranges: bool) -> None:
    dataset = made(f"{server.url}/data.bin")
    server.breaks_at = 100_000
    with pytest.raises(BenchError, match="the connection broke"):
        fetch(dataset, quiet)
    assert left(shelf) == ["thing", "thing/.data.bin.part"]
    assert dataset.location() is None
    kept = (shelf.root / "thing/.data.bin.part").stat().st_size
    assert 0 < kept <= 100_000
    server.breaks_at, server.ranges = None, ranges
    fetch(dataset, quiet)
    assert server.asked == [None, f"bytes={kept}-"]
    assert (shelf.root / "thing/data.bin").read_bytes() == CONTENT
    assert left(shelf) == ["thing", "thing/data.bin"]


def test_a_part_of_something_else_does_not_stay(shelf: "Shelf", server: Server) -> None:
    dataset = made(f"{server.url}/data.bin")
    for content, reason in ((CONTENT + b"more", " 416 "), (b"other", f"MD5 is not {SUM}")):
        shelf.write("thing/.data.bin.part", content)
        with pytest.raises(BenchError, match=reason):
            fetch(dataset, quiet)
        assert left(shelf) == ["thing"]
    fetch(dataset, quiet)
    assert (shelf.root / "thing/data.bin").read_bytes() == CONTENT


def test_the_next_address_is_tried(shelf: "Shelf", server: Server) -> None:
    fetch(made(f"{server.url}/gone", f"{server.url}/page", f"{server.url}/data.bin"), quiet)
    assert (shelf.root / "thing/data.bin").read_bytes() == CONTENT


def test_without_a_network_the_error_states_what_to_put_where(shelf: "Shelf", server: Server) -> None:
    server.server_close()
    shelf.root.rmdir()
    with pytest.raises(BenchError) as caught:
        fetch(made(f"{server.url}/data.bin"), quiet)
    target = shelf.root / "thing/data.bin"
    assert f"{server.url}/data.bin: no connection" in str(caught.value)
    expected = f"put {server.url}/data.bin at {target} (MD5 {SUM}, 300,000 bytes)"
    assert expected in str(caught.value)
    assert not shelf.root.exists(), "a folder was made for nothing"


@pytest.mark.parametrize("path", ["gone", "page"])
def test_a_wrong_response_leaves_nothing(shelf: "Shelf", server: Server, path: str) -> None:
    with pytest.raises(BenchError, match=" 404 " if path == "gone" else f"MD5 is not {SUM}"):
        fetch(made(f"{server.url}/{path}"), quiet)
    assert left(shelf) == []


def test_without_a_sum_the_content_decides(shelf: "Shelf", server: Server) -> None:
    with pytest.raises(BenchError, match="not thing and was removed"):
        fetch(made(f"{server.url}/page", md5=None), quiet)
    assert left(shelf) == []
    server.breaks_at = 100_000
    with pytest.raises(BenchError, match="the connection broke"):
        fetch(made(f"{server.url}/data.bin", md5=None), quiet)
    assert left(shelf) == []
    server.breaks_at = None
    fetch(made(f"{server.url}/data.bin", md5=None), quiet)
    assert left(shelf) == ["thing", "thing/data.bin"]


def test_a_folder_that_cannot_be_written(shelf: "Shelf", server: Server) -> None:
    shelf.write("thing", b"a file where the folder should be")
    dataset = replace(made(f"{server.url}/data.bin"), places=(Place("elsewhere"),))
    with pytest.raises(BenchError, match="thing cannot be written to"):
        fetch(dataset, quiet)
