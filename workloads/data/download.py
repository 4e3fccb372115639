"""Downloads of data sets from their publishers: complete and checked, or nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.data.dataset import File, Published
from workloads.data.foreign_files import md5
from workloads.data.places import data_root
from workloads.errors import BenchError

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes received and, if known, the total."""
CHUNK = 1 << 16
"""Bytes at a time; the most that is lost when a connection breaks."""
PATIENCE = 30.0
"""Seconds without data before a server times out."""


def fetch(dataset: Published, progress: Progress) -> Path:
    """Download the missing files of a data set; existing files with the right checksum are kept.

    The next call resumes a broken transfer if the file's checksum is known. A file gets its name only when it
    is complete. BenchError states which file to put where if no server has it.
    """
    folder = data_root() / dataset.name
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        for file in dataset.files:
            target = folder / file.name
            if file.md5 is None or not target.exists() or md5(target) != file.md5:
                _fetch(file, folder, progress)
        if any(file.md5 is None for file in dataset.files):
            _check_content(dataset, folder)
    except OSError as error:
        raise BenchError(
            f"{dataset.name} cannot be written to {folder}: {error}", field=str(folder)
        ) from error
    except BenchError as error:
        raise BenchError(
            f"{error}. By hand: {dataset.by_hand()}", field="data set", value=dataset.name
        ) from error
    finally:
        for each in new:  # innermost first: remove new folders that stayed empty
            if each.exists() and not any(each.iterdir()):
                each.rmdir()
    return folder


def _fetch(file: File, folder: Path, progress: Progress) -> None:
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    reasons = []
    for url in file.urls:
        transfer = _Transfer(folder / f".{file.name}.part", file, progress)
        known = None if file.md5 is None else f"md5:{file.md5}"
        try:
            pooch.retrieve(url, known, fname=file.name, path=folder, downloader=transfer)
        except requests.RequestException as error:
            transfer.tidy()
            reasons.append(f"{url}: {_reason(error)}")
        except ValueError:  # pooch's error for a wrong checksum
            reasons.append(f"{url}: the file's MD5 is not {file.md5}")
        else:
            return
    raise BenchError("; ".join(reasons))


def _check_content(dataset: Published, folder: Path) -> None:
    """Parse files without a published checksum, so that an error page is not taken for data."""
    verdict = dataset.verify()
    if verdict.state == "damaged":
        for file in dataset.files:
            (folder / file.name).unlink(missing_ok=True)
        raise BenchError(
            f"the download is not {dataset.name} and was removed: {verdict.detail}",
            field="data set",
            value=dataset.name,
        )


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server returned {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke; the received part is kept, repeat the command to resume"
    if isinstance(error, requests.Timeout):
        return f"no response for {PATIENCE:g} s"
    return "no connection" if isinstance(error, requests.ConnectionError) else str(error)


class _Transfer:
    """A resumable downloader for pooch: a partial file is kept aside and completed later."""

    def __init__(self, part: Path, file: File, progress: Progress) -> None:
        self.part, self.file, self.progress = part, file, progress

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        """Fetch the url into the file that pooch will check and rename."""
        import requests

        # Without a checksum, parts of two different versions could be joined unnoticed.
        have = self.part.stat().st_size if self.file.md5 and self.part.exists() else 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        with requests.get(url, stream=True, timeout=PATIENCE, headers=headers) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink(missing_ok=True)  # longer than the file: it was of another one
            response.raise_for_status()
            resumed = response.status_code == requests.codes.partial_content
            self._receive(response, have if resumed else 0)
        shutil.move(self.part, output_file)

    def tidy(self) -> None:
        """Remove a partial file that no later transfer can resume."""
        if self.part.exists() and (self.file.md5 is None or not self.part.stat().st_size):
            self.part.unlink()

    def _receive(self, response: Any, have: int) -> None:
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else self.file.bytes
        with self.part.open("ab" if have else "wb") as opened:
            for chunk in response.iter_content(CHUNK):
                opened.write(chunk)
                have += len(chunk)
                self.progress(self.file.name, have, total)
