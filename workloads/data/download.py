"""Getting a data set from its publisher: whole, checked, or not at all."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.data.dataset import File, Published
from workloads.data.foreign_files import md5
from workloads.data.places import data_root
from workloads.errors import BenchError

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that are here and, where it is known, how many there will be."""
CHUNK = 1 << 16
"""Bytes at a time; what is lost when a connection breaks."""
PATIENCE = 30.0
"""Seconds a server may stay silent."""


def fetch(dataset: Published, progress: Progress) -> Path:
    """Fill the data set's folder with its files; those that are there and have their sum are kept.

    A transfer that broke off is taken up where it ended, in the next call, if the file's sum is known. A file
    gets its name only when it is whole. BenchError says which file to put where if no server gives it.
    """
    folder = data_root() / dataset.name
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        for file in dataset.files:
            target = folder / file.name
            if file.md5 is None or not target.exists() or md5(target) != file.md5:
                _fetch(file, folder, progress)
        if any(file.md5 is None for file in dataset.files):
            _look(dataset, folder)
    except OSError as error:
        raise BenchError(f"{dataset.name} cannot be written to {folder}: {error}") from error
    except BenchError as error:
        raise BenchError(f"{error}. By hand: {dataset.by_hand()}") from error
    finally:
        for each in new:  # innermost first: a folder that was made for nothing goes again
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
        except ValueError:  # pooch's word for a wrong sum
            reasons.append(f"{url}: gave a file with another MD5 than {file.md5}")
        else:
            return
    raise BenchError("; ".join(reasons))


def _look(dataset: Published, folder: Path) -> None:
    """Read files whose publisher states no sum, so that an error page does not pass for data."""
    verdict = dataset.verify()
    if verdict.state == "damaged":
        for file in dataset.files:
            (folder / file.name).unlink(missing_ok=True)
        raise BenchError(f"what came is not {dataset.name} and was removed: {verdict.detail}")


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke; what arrived is kept, fetch again to go on"
    if isinstance(error, requests.Timeout):
        return f"no answer for {PATIENCE:g} s"
    return "no connection" if isinstance(error, requests.ConnectionError) else str(error)


class _Transfer:
    """pooch's downloader with a memory: what arrived before a break is kept aside and completed later."""

    def __init__(self, part: Path, file: File, progress: Progress) -> None:
        self.part, self.file, self.progress = part, file, progress

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        """Fetch the url into the file that pooch will check and rename."""
        import requests

        # Without a sum nobody would notice that two halves belong to different versions.
        have = self.part.stat().st_size if self.file.md5 and self.part.exists() else 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        with requests.get(url, stream=True, timeout=PATIENCE, headers=headers) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink(missing_ok=True)  # longer than the file: it was of something else
            response.raise_for_status()
            resumed = response.status_code == requests.codes.partial_content
            self._receive(response, have if resumed else 0)
        shutil.move(self.part, output_file)

    def tidy(self) -> None:
        """Remove a part that no later transfer can build on."""
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
