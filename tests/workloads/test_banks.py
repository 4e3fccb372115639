"""Feature banks: computed once, cached completely, resumed after an interruption."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import data
from workloads.data.array_cache import Arrays, digest, file_of
from workloads.data.dataset import Dataset, Place, Published
from workloads.errors import BenchError
from workloads.features import bank
from workloads.features.bank import Bank, Encode, Features, Inputs
from workloads.features.progress import Lines


def images(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(256, size=(count, 3, 2, 2), dtype=np.uint8)


def read(place: Path) -> Arrays:
    return {"train_x": images(7, 1), "train_y": np.arange(7), "test_x": images(3, 2), "test_y": np.arange(3)}


TINY = Published("tiny", "", "", "", (Place("tiny"),), read, (), sha256=digest(read(Path())))


@dataclass
class Sums:
    """An encoder that sums the pixels of an image, and fails on request."""

    about: str = "sums"
    version: str = "1-abc"
    reason: str | None = None
    breaks_at: int = -1
    seen: list[int] = field(default_factory=list)
    """How many images each call was given."""

    def missing(self) -> str | None:
        return self.reason

    def inputs(self, arrays: Arrays, split: str) -> Inputs:
        return arrays[f"{split}_x"]

    def open(self) -> Encode:
        def encode(images: Any) -> Features:
            if len(self.seen) == self.breaks_at:
                raise RuntimeError("the power is gone")
            self.seen.append(len(images))
            sums: Features = images.reshape(len(images), 3, 4).sum(axis=2).astype(np.float16)
            return sums

        return encode


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a test with the data set `tiny`; banks are computed in parts of three records."""
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PRIVBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bank, "PART", 3)
    (tmp_path / "data" / "tiny").mkdir(parents=True)
    members: dict[str, Dataset] = {**data.family.members, "tiny": TINY}
    monkeypatch.setattr(data.family, "members", members)
    return tmp_path / "cache"


def expected() -> dict[str, Any]:
    arrays = read(Path())
    sums = {
        f"{split}_x": arrays[f"{split}_x"].sum(axis=(2, 3)).astype(np.float16) for split in ("train", "test")
    }
    return {**arrays, **sums}


def assert_whole(found: Arrays) -> None:
    assert found.keys() == expected().keys()
    for name, array in expected().items():
        assert np.array_equal(found[name], array), name
    assert found["train_x"].dtype == np.float16


def test_it_is_made_once_part_by_part(folder: Path) -> None:
    sums = Sums()
    made = Bank("tiny-sums", "tiny", sums)
    assert not made.kept()
    assert_whole(made.load())
    assert sums.seen == [3, 3, 1, 3]
    assert made.kept()
    assert_whole(made.load())
    assert len(sums.seen) == 4, "the second time nothing is encoded"
    visible = [file.name for file in folder.iterdir() if file.name.startswith(("tiny-sums", ".tiny-sums"))]
    assert sorted(visible) == sorted([made.file().name, f".{made.file().name}.lock"]), "no part is left"


def test_what_broke_off_resumes(folder: Path) -> None:
    broken = Sums(breaks_at=2)
    with pytest.raises(RuntimeError, match="the power is gone"):
        Bank("tiny-sums", "tiny", broken).load()
    assert not Bank("tiny-sums", "tiny", broken).kept()
    rest = Sums()
    assert_whole(Bank("tiny-sums", "tiny", rest).load())
    assert (broken.seen, rest.seen) == ([3, 3], [1, 3])


def test_a_flipped_byte_is_found_and_the_bank_rebuilt(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    sums = Sums()
    made = Bank("tiny-sums", "tiny", sums)
    made.load()
    content = bytearray(made.file().read_bytes())
    content[-1] ^= 1
    made.file().write_bytes(content)
    assert_whole(made.load())
    assert "is damaged and will be rebuilt" in caplog.text
    assert len(sums.seen) == 8


def test_other_weights_or_other_records_are_another_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        Bank("tiny-sums", "tiny", Sums(version=version)).file() for version in ("1-abc", "1-abd", "2-abc")
    }
    assert len(files) == 3
    other = replace(TINY, sha256="f" * 64)
    monkeypatch.setitem(data.family.members, "tiny", other)
    assert Bank("tiny-sums", "tiny", Sums()).file() not in files


def test_data_without_a_known_checksum_are_identified_by_content(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Bank("tiny-sums", "tiny", Sums()).file()
    monkeypatch.setitem(data.family.members, "tiny", replace(TINY, sha256=None))
    assert Bank("tiny-sums", "tiny", Sums()).file() == known


def test_a_second_process_waits_for_the_first(folder: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Sums):
        def open(self) -> Encode:
            encode = super().open()

            def slowly(images: Any) -> Features:
                begun.set()
                assert go_on.wait(60)
                return encode(images)

            return slowly

    slow, second, found = Slow(), Sums(), []

    def ask(encoder: Sums) -> None:
        found.append(Bank("tiny-sums", "tiny", encoder).load())

    threads = [threading.Thread(target=ask, args=(each,)) for each in (slow, second)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(found) == 2
    for each in found:
        assert_whole(each)
    assert (slow.seen, second.seen) == ([3, 3, 1, 3], [])


def test_progress_is_reported(folder: Path) -> None:
    reported: list[tuple[str, int, int]] = []
    Bank("tiny-sums", "tiny", Sums()).load(lambda *each: reported.append(each))
    train, test = "features tiny-sums, train", "features tiny-sums, test"
    assert reported == [
        (train, 0, 7),
        (train, 3, 7),
        (train, 6, 7),
        (train, 7, 7),
        (test, 0, 3),
        (test, 3, 3),
    ]


def test_what_is_missing_is_reported_with_the_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Bank("tiny-sums", "tiny", Sums(reason="it needs abacus: run `pip install abacus`"))
    reason = made.missing() or ""
    assert "it needs abacus: run `pip install abacus`, then `privbench data features tiny-sums`" in reason
    assert str(made.file()) in reason
    with pytest.raises(BenchError, match="it needs abacus"):
        made.load()
    assert not folder.exists(), "checking writes nothing"
    replace(made, encoder=Sums()).load()
    assert made.missing() is None, "a file from another machine is accepted"
    assert_whole(made.load())
    monkeypatch.setenv("PRIVBENCH_DATA", str(folder / "elsewhere"))
    assert "data set 'tiny' is missing" in (made.missing() or "")


def test_a_file_of_other_records_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Bank("tiny-sums", "tiny", Sums())
    made.load()
    whole = made.file().read_bytes()

    def fewer(place: Path) -> Arrays:
        return {name: each[:2] for name, each in read(place).items()}

    monkeypatch.setitem(data.family.members, "tiny", replace(TINY, read=fewer, sha256=None, version=2))
    made.file().write_bytes(whole)
    with pytest.raises(BenchError) as caught:
        made.load()
    error = caught.value
    assert (error.field, error.value, error.allowed) == (str(made.file()), [7, 3], [2, 2])


def test_a_cache_that_cannot_be_written_does_not_stop_anybody(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file where the folder should be")
    assert_whole(Bank("tiny-sums", "tiny", Sums()).load())
    assert "cannot be cached" in caplog.text
    assert file_of("x", "y").parent == folder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [100.0]
    monkeypatch.setattr("workloads.features.progress.time.monotonic", lambda: now[0])

    def forward(seconds: float) -> None:
        now[0] += seconds

    return forward


def test_lines_come_now_and_then_and_at_the_end(clock: Callable[[float], None]) -> None:
    written: list[str] = []
    lines = Lines(written.append)
    lines("a", 0, 4000)
    for done in (1000, 2000, 3000, 4000):
        clock(6)
        lines("a", done, 4000)
    assert written == [
        "a: 2,000 of 4,000 in 12 s, about 12 s left",
        "a: 4,000 of 4,000 in 24 s, about 0 s left",
    ]
