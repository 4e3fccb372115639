import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.backends.base import Job, Settings
from harness.backends.local import Local
from harness.backends.machine.queue import only_one, submissions, supervised, supervisor_state
from harness.backends.machine.supervisor import Supervisor
from harness.jobs.cgroup import oom_kills
from harness.store import Store
from harness.store.files import dump, dump_checked
from workloads.errors import BackendError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store.open(tmp_path / "store", create=True)
    (made.path / "supervisor").mkdir()
    return made


def say(store: Store, host: str, age: float) -> None:
    state = {"host": host, "pid": 1, "time": time.time() - age, "running": [], "waiting": 0}
    (store.path / "supervisor" / "state.json").write_bytes(dump(state))


def test_only_one_holds_the_store_and_its_death_releases_the_lock(store: Store) -> None:
    program = (
        "import sys, time; from harness.backends.machine.queue import only_one\n"
        "from harness.store import Store\n"
        "with only_one(Store(sys.argv[1])) as alone:\n"
        "    print(alone, flush=True); time.sleep(1000)"
    )
    assert not supervised(store)
    command = [sys.executable, "-c", program, str(store.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "True\n"
            assert supervised(store)
            with only_one(store) as alone:
                assert not alone
        finally:
            holder.kill()
    assert not supervised(store)


def test_stores_do_not_share_a_lock(store: Store, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other", create=True)
    link = tmp_path / "link"
    link.symlink_to(store.path)
    with only_one(store) as alone:
        assert alone
        assert not supervised(other)
        assert supervised(Store(link)), "another name of the same folder is the same store"


def test_a_supervisor_on_another_host_is_respected(store: Store) -> None:
    say(store, "another-host", age=1)
    with pytest.raises(BackendError, match="host another-host"):
        Local().submit([Job(("ab" * 16,))], store, "sweep", Settings())
    assert submissions(store) == []


def test_a_state_from_the_future_is_stale(store: Store) -> None:
    """A clock that was set back, or a damaged number, must not block the store."""
    say(store, "another-host", age=-1e9)
    state = supervisor_state(store)
    assert state is not None
    assert not state.fresh


def test_the_state_of_a_supervisor_is_read_if_complete(store: Store) -> None:
    assert supervisor_state(store) is None
    say(store, socket.gethostname(), age=0)
    state = supervisor_state(store)
    assert state is not None
    assert state.host == socket.gethostname()
    (store.path / "supervisor" / "state.json").write_text('{"host": ')
    assert supervisor_state(store) is None


def test_submissions_are_listed_in_their_order_and_by_sweep(store: Store) -> None:
    for number, sweep in enumerate(("one", "two", "one")):
        content = {"sweep": sweep, "settings": {}, "jobs": []}
        (store.queue / f"{number:020d}-x.json").write_bytes(dump_checked(content))
    (store.queue / ".aside.json-1").write_text("{")
    (store.queue / f"{3:020d}-x.stop").write_text("")
    assert [file.name[19] for file in submissions(store)] == ["0", "1", "2"]
    assert [file.name[19] for file in submissions(store, "one")] == ["0", "2"]
    assert submissions(store, "three") == []


def test_a_damaged_submission_is_of_no_sweep_and_is_taken_away(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = dump_checked({"sweep": "one", "settings": {}, "jobs": []})
    harms = [b"", b"[]", b"{}", whole[:-9], whole.replace(b"one", b"two"), b'{"sweep": "one"}']
    for number, harm in enumerate(harms):
        (store.queue / f"{number:020d}-x.json").write_bytes(harm)
    assert submissions(store, "one") == submissions(store, "two") == []
    supervisor = Supervisor(store)
    supervisor._read_queue()
    assert supervisor.submissions == {}
    assert submissions(store) == []
    assert capsys.readouterr().err.count("enqueue its sweep again") == len(harms)


def test_stopping_what_is_not_queued_starts_nothing(store: Store) -> None:
    Local().stop(store, "sweep", cancel=True)
    assert list(store.queue.iterdir()) == []
    assert list((store.path / "supervisor").iterdir()) == []


def test_out_of_memory_kills_are_counted_if_the_kernel_reports_them() -> None:
    assert oom_kills() >= 0
