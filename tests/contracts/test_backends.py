"""The contract of backends, including those of installed packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.backends import DEFAULT, family
from harness.backends.base import Backend, Settings, read_settings
from harness.backends.gpus import DEVICES
from harness.store import Store
from harness.store.journal import SweepRecord

NAMES = family.names()
PROFILED = [name for name in NAMES if family.get(name).Profile is not None]


def test_the_default_is_one_of_them() -> None:
    assert DEFAULT in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_describes_itself(name: str) -> None:
    backend = family.get(name)
    assert isinstance(backend, Backend)
    assert backend.name == name
    assert backend.about
    assert backend.device(Settings()) in DEVICES
    assert all(found.what and found.use for found in backend.parts())


@pytest.mark.parametrize("name", PROFILED)
def test_its_profile_is_frozen_described_and_refuses_other_keys(name: str) -> None:
    kind = family.get(name).Profile
    assert kind is not None
    assert [field for field, about in kind.model_fields.items() if not about.description] == []
    with pytest.raises(ValidationError, match="extra"):
        kind.model_validate({"no_such_key": 1})
    with pytest.raises(ValidationError, match="frozen"):
        setattr(kind(), next(iter(kind.model_fields)), None)


@pytest.mark.parametrize("name", NAMES)
def test_settings_survive_being_written_and_read(name: str) -> None:
    kind = family.get(name).Profile
    settings = Settings(2, 3, 4.5, {"A": "b"}, kind() if kind else None, share_gpus=True, gpus=["GPU-1"])
    written = json.loads(json.dumps(settings.dump()))
    assert read_settings(written, kind) == settings


@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_without_open_tasks_has_no_holder(name: str, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    store.write_sweep(SweepRecord(name="sweep", backend=name, tasks=[]))
    assert family.get(name).status(store, "sweep", set()).queued is False


def test_finding_them_loads_neither_torch_nor_a_client_of_a_scheduler() -> None:
    code = (
        "import json, sys; from harness.backends import family; family.names(); "
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "submitit", "docker", "duckdb"} & {*json.loads(done.stdout)}
