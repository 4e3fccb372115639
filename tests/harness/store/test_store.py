import json
import multiprocessing
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness.store
from harness.spec import PROTOCOL, Cell, Json, Plugin, Task
from harness.store import Store, heartbeat, read_result
from harness.store.files import checksum, dump, dump_checked, parse_checked, write_atomic
from harness.store.journal import SweepEntry, SweepRecord
from harness.store.result import Result, parse_result
from workloads.errors import StoreError

KEY = "ab" * 16


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def task(seed: int = 0) -> Task:
    return Task("train", Cell(Plugin("w", "1"), 5, Plugin("m", "1"), {"lr": 0.1}, seed))


def result(status: str = "done", key: str = KEY, **more: Any) -> Result:
    reason = None if status == "done" else "error"
    head: Json = {"key": key, "kind": "train", "status": status, "reason": reason, "artefacts": {}}
    return parse_result({**head, **more})


def status(store: Store) -> str | None:
    found = store.result(KEY)
    return None if found is None else found.status


# -- the folder --------------------------------------------------------------------------------


def test_a_store_is_created_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path / "new")
    assert (caught.value.field, caught.value.value) == ("--store", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    made = Store.open(tmp_path / "deep" / "new", create=True)
    assert json.loads((made.path / "store.json").read_text()) == {"protocol": PROTOCOL}
    assert Store.open(made.path).path == made.path


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path / "file", create=True)
    assert (caught.value.field, caught.value.value) == ("--store", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_with_foreign_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path, create=True)
    assert (caught.value.field, caught.value.value) == ("--store", tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_interrupted_creation_is_finished(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    assert Store.open(tmp_path, create=True).exists()


def test_a_store_of_a_newer_protocol_is_refused(store: Store) -> None:
    (store.path / "store.json").write_text(json.dumps({"protocol": PROTOCOL + 1}))
    with pytest.raises(StoreError) as caught:
        Store.open(store.path)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (
        "protocol",
        PROTOCOL + 1,
        PROTOCOL,
    )


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"protocol": "x"}', '{"protocol": null}', '{"pro'])
def test_a_broken_store_file_is_reported(store: Store, content: str) -> None:
    (store.path / "store.json").write_text(content)
    with pytest.raises(StoreError, match=r"store\.json cannot be read"):
        Store.open(store.path)


# -- tasks -------------------------------------------------------------------------------------


def test_a_spec_is_written_once_and_rewritten_if_damaged_or_altered(store: Store) -> None:
    given = task()
    file = store.folder(given.key) / "spec.json"
    store.add(given)
    written, stamp = file.read_bytes(), file.stat().st_ino
    store.add(given)
    assert file.stat().st_ino == stamp
    for harm in (written[:20], written.replace(b"0.1", b"0.2"), b"[]", b'{"task": 3}'):
        file.write_bytes(harm)
        store.add(given)
        assert file.read_bytes() == written


def test_a_damaged_spec_is_reported(store: Store) -> None:
    with pytest.raises(StoreError, match="no task abab"):
        store.task(KEY)
    store.folder(KEY).mkdir(parents=True)
    (store.folder(KEY) / "spec.json").write_text('{"task":')
    with pytest.raises(StoreError, match="is damaged"):
        store.task(KEY)
    for strange in ("[]", "{}", '{"task": {}, "notes": {}}', '{"task": {"kind": "train"}}'):
        (store.folder(KEY) / "spec.json").write_text(strange)
        with pytest.raises(StoreError, match=r"is (damaged|not the spec of a task)"):
            store.task(KEY)


def test_an_altered_spec_is_reported_whether_task_or_notes(store: Store) -> None:
    given = task()
    store.add(given)
    file = store.folder(given.key) / "spec.json"
    written = file.read_bytes()
    assert store.task(given.key) == given
    for old, new in ((b'"lr": 0.1', b'"lr": 0.3'), (b'"label": "m', b'"label": "n')):
        assert written.count(old) == 1
        file.write_bytes(written.replace(old, new))
        with pytest.raises(StoreError, match="does not match its checksum; run or enqueue its sweep again"):
            store.task(given.key)
    other = task(1)
    store.add(other)
    file.write_bytes((store.folder(other.key) / "spec.json").read_bytes())
    with pytest.raises(StoreError, match="hashes to another key"):
        store.task(given.key)


def test_a_checksum_shows_damage_and_old_files_have_none() -> None:
    content = {"tasks": [1, 2], "name": "x"}
    raw = dump_checked(content)
    assert parse_checked(raw) == content
    assert parse_checked(dump(content)) == content
    for harm in (raw[:-3], raw.replace(b"x", b"y"), b"[]", b"", b"\xff"):
        with pytest.raises(ValueError, match=r"\S"):
            parse_checked(harm)


def test_a_deleted_store_file_is_rewritten_and_the_results_stay(store: Store) -> None:
    store.add(task())
    store.database.touch()
    (store.path / "supervisor").mkdir()
    (store.path / "store.json").write_text("{")
    with pytest.raises(StoreError, match="delete it and run or enqueue a sweep"):
        Store.open(store.path)
    (store.path / "store.json").unlink()
    assert Store.open(store.path, create=True).task(task().key) == task()


@pytest.mark.parametrize("age", [1e9, 40.0, -40.0, -1e9])
def test_a_heartbeat_that_is_old_or_in_the_future_is_stale(store: Store, age: float) -> None:
    def tell(ago: float) -> None:
        word = {"time": time.time() - ago, "phase": "train", "done": 1, "total": 2}
        (store.path / "heartbeat").write_text(json.dumps(word))

    tell(age)
    assert heartbeat(store.path) is None
    tell(0.0)
    assert heartbeat(store.path) is not None
    (store.path / "heartbeat").write_text('{"time": 1}')
    assert heartbeat(store.path) is None


def test_a_task_is_found_by_the_first_digits_of_its_key(store: Store) -> None:
    for key in ("ab12" + "0" * 28, "ab13" + "0" * 28, "cd" + "0" * 30):
        store.folder(key).mkdir(parents=True)
    assert store.find("ab12") == "ab12" + "0" * 28
    assert store.find("cd") == "cd" + "0" * 30
    with pytest.raises(StoreError, match="2 tasks begin with 'ab1'"):
        store.find("ab1")
    for nothing in ("ff", "a", "", "xy", "../..", "ab12*"):
        with pytest.raises(StoreError, match="no task begins"):
            store.find(nothing)


# -- results -----------------------------------------------------------------------------------


def test_a_result_comes_back_as_it_was(store: Store) -> None:
    assert store.result(KEY) is None
    assert store.publish(result(metrics={"test_accuracy": 0.5}))
    found = store.result(KEY)
    assert found is not None
    assert found.checksum == checksum(found.document())
    assert found.document() == result(metrics={"test_accuracy": 0.5}).document()


def test_only_a_success_replaces_a_failure(store: Store) -> None:
    def standing() -> Any:
        found = store.result(KEY)
        return found and found.figures["who"]

    assert store.publish(result("failed", who="first failure"))
    assert not store.publish(result("failed", who="second failure"))
    assert standing() == "first failure"
    assert store.publish(result(who="first success"))
    assert not store.publish(result(who="second success"))
    assert not store.publish(result("failed", who="third failure"))
    assert standing() == "first success"


def race(arguments: tuple[str, int, str]) -> tuple[str, bool]:
    path, number, status = arguments
    store = Store(path)
    content = bytes(f"content of {number}", "ascii") * 100
    artefact = store.write_artefact(KEY, "signals.safetensors", content)
    published = store.publish(result(status, who=number, artefacts={"signals": artefact}))
    return status, published


@pytest.mark.parametrize("standing", ["nothing", "failure", "half a file"])
def test_of_many_copies_publishing_at_once_one_success_wins_whole(store: Store, standing: str) -> None:
    """Forked processes race many times; whatever was there before, exactly one success remains."""
    with multiprocessing.get_context("fork").Pool(8) as pool:
        for turn in range(6):
            folder = store.folder(KEY)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "result.json").unlink(missing_ok=True)
            if standing == "failure":
                store.publish(result("failed"))
            elif standing == "half a file":
                (folder / "result.json").write_text('{"key": "ab')
            copies = [
                (str(store.path), 8 * turn + each, "done" if each % 2 else "failed") for each in range(8)
            ]
            outcomes = pool.map(race, copies, chunksize=1)
            wins = [status for status, published in outcomes if published]
            assert wins.count("done") == 1
            assert wins.count("failed") <= (standing != "failure")
            found = store.result(KEY)
            assert found is not None
            assert found.done
            content = store.read_artefact(found, "signals")
            assert content == bytes(f"content of {found.figures['who']}", "ascii") * 100
    assert not list(store.folder(KEY).glob(".*"))


HARMS: dict[str, Callable[[Path, Path], object]] = {
    "half a result": lambda file, artefact: file.write_bytes(file.read_bytes()[:50]),
    "an empty result": lambda file, artefact: file.write_bytes(b""),
    "not JSON": lambda file, artefact: file.write_bytes(b"\xff\xfe"),
    "another number": lambda file, artefact: file.write_text(file.read_text().replace("0.75", "0.85")),
    "no checksum": lambda file, artefact: file.write_bytes(dump(result().document())),
    "a list": lambda file, artefact: file.write_text("[1]"),
    "a missing artefact": lambda file, artefact: artefact.unlink(),
    "a short artefact": lambda file, artefact: artefact.write_bytes(artefact.read_bytes()[:-1]),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_result_counts_as_absent_and_is_rebuilt(store: Store, harm: str) -> None:
    store.folder(KEY).mkdir(parents=True)

    def complete() -> Result:
        artefact = store.write_artefact(KEY, "model.safetensors", b"weights")
        return result(accuracy=0.75, artefacts={"model": artefact})

    assert store.publish(complete())
    file = store.folder(KEY) / "result.json"
    found = store.result(KEY)
    assert found is not None
    HARMS[harm](file, store.artefact(found, "model"))
    assert store.result(KEY) is None
    assert store.broken() == [file]
    assert list(store.results()) == []
    store.publish(complete())  # rewriting an artefact with the same bits may repair the old result
    assert store.broken() == []
    mended = store.result(KEY)
    assert mended is not None
    assert mended.figures["accuracy"] == 0.75


def test_a_flipped_bit_in_an_artefact_is_detected_on_reading(store: Store) -> None:
    store.folder(KEY).mkdir(parents=True)
    artefact = store.write_artefact(KEY, "model.safetensors", b"weights")
    store.publish(result(artefacts={"model": artefact}))
    found = store.result(KEY)
    assert found is not None
    assert store.read_artefact(found, "model") == b"weights"
    store.artefact(found, "model").write_bytes(b"weightz")
    with pytest.raises(StoreError, match="delete it and run the sweep again"):
        store.read_artefact(found, "model")
    store.artefact(found, "model").unlink()
    with pytest.raises(StoreError, match="missing"):
        store.read_artefact(found, "model")


def test_numbers_that_json_lacks_are_refused(store: Store) -> None:
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON compliant"):
            store.publish(result(accuracy=number))
    assert store.result(KEY) is None
    assert not list(store.folder(KEY).iterdir())


def test_resetting_a_failure_keeps_its_reason(store: Store) -> None:
    store.publish(result("failed", message="no luck"))
    store.reset(KEY)
    assert store.result(KEY) is None
    (kept,) = (store.folder(KEY) / "failures").iterdir()
    assert json.loads(kept.read_text())["message"] == "no luck"
    store.reset(KEY)
    store.publish(result("failed", message="no luck again"))
    store.reset(KEY)
    assert len(list((store.folder(KEY) / "failures").iterdir())) == 2


def test_a_success_is_not_forgotten(store: Store) -> None:
    """It may have arrived between the caller's check and the call."""
    store.publish(result())
    store.reset(KEY)
    assert store.result(KEY) is not None


def test_a_success_that_comes_amid_a_reset_stands_without_locks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without locks it may arrive after the check and before the failure is moved."""
    take = harness.store.store._move_aside

    def late(folder: Path) -> Path | None:
        store._publish(result(), folder)
        return take(folder)

    store.publish(result("failed"))
    monkeypatch.setattr(harness.store.store, "_move_aside", late)
    store.reset(KEY)
    assert status(store) == "done"
    assert not list((store.folder(KEY) / "failures").iterdir())


def test_results_come_with_their_specs_in_the_order_of_keys(store: Store) -> None:
    tasks = [task(seed) for seed in range(5)]
    for each in tasks:
        store.add(each)
    for each in tasks[:3]:
        store.publish(result(key=each.key))
    store.publish(result(key=KEY))  # a result without its spec belongs to no task
    found = [(ended.cell.seed, row.key) for ended, row in store.results()]
    assert sorted(found) == [(seed, tasks[seed].key) for seed in range(3)]
    assert [key for _, key in found] == sorted(key for _, key in found)


def test_sweeps_are_recorded_by_name(store: Store) -> None:
    store.write_sweep(SweepRecord(name="one", tasks=[]))
    two = SweepRecord(name="two", tasks=[SweepEntry(key=KEY, kind="train", cell="c")])
    store.write_sweep(two)
    assert store.sweep("two") == two
    with pytest.raises(StoreError, match=r"no sweep 'three'.*Known: one, two"):
        store.sweep("three")


# -- full disks and crashes --------------------------------------------------------------------


def test_a_reader_sees_the_old_or_the_new(tmp_path: Path) -> None:
    """A writer is killed repeatedly while it writes; the file is always complete."""
    file = tmp_path / "file"
    program = (
        "import sys, pathlib; from harness.store.files import write_atomic\n"
        "for i in range(10**9):\n"
        "    write_atomic(pathlib.Path(sys.argv[1]), bytes([i % 256]) * 100_000)"
    )
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", program, str(file)])
        try:
            while not file.exists():
                assert writer.poll() is None
            for _ in range(30):
                content = file.read_bytes()
                assert len(content) == 100_000
                assert len(set(content)) == 1
        finally:
            writer.kill()
            writer.wait()
        assert len(set(file.read_bytes())) == 1


@pytest.fixture
def small_disk(tmp_path: Path, mount_small: Callable[[Path, str], None]) -> Path:
    """A file system of a few pages."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount_small(disk, "256k")
    return disk


def test_a_full_disk_leaves_no_half_result(small_disk: Path) -> None:
    store = Store.open(small_disk / "store", create=True)
    assert store.publish(result("failed"))
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(OSError, match="No space left"):
        store.publish(result(metrics={"long": "x" * 10_000}))
    with pytest.raises(OSError, match="No space left"):
        store.write_artefact(KEY, "model.safetensors", b"x" * 10_000)
    assert status(store) == "failed"
    assert [each.name for each in store.folder(KEY).iterdir()] == ["result.json"]
    ballast.unlink()
    assert store.publish(result(metrics={"long": "x" * 10_000}))
    assert status(store) == "done"


def test_a_file_size_limit_leaves_no_half_result(store: Store) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.publish(result(metrics={"long": "x" * 10_000}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.result(KEY) is None
    assert not list(store.folder(KEY).iterdir())
    assert store.publish(result(metrics={"long": "x" * 10_000}))


def test_a_crash_beside_a_result_is_no_result(store: Store) -> None:
    folder = store.folder(KEY)
    folder.mkdir(parents=True)
    (folder / ".result-0123").write_bytes(dump_checked(result().document()))
    assert read_result(folder) is None
    write_atomic(folder / "result.json", (folder / ".result-0123").read_bytes())
    assert read_result(folder) is not None
