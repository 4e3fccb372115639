"""File permissions: the store follows the umask; scripts of the owner's jobs are the owner's alone."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.backends.slurm.array_record import folder, make_folder
from harness.results.collect import collect
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from tests.harness.simulated import ended, sweep_record

TASK = Task("train", Cell(Plugin("w", "1"), 5, Plugin("m", "1"), {}, seed=0))


@pytest.fixture(params=[0o077, 0o027, 0o022], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_every_file_of_a_store_follows_the_umask(umask: int, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    store.add(TASK)
    artefact = store.write_artefact(TASK.key, "model.safetensors", b"weights")
    store.publish(ended(TASK, "failed", artefacts={"model": artefact}))
    store.write_sweep(sweep_record("one"))
    collect(store.path)
    every = [store.path, *store.path.rglob("*")]
    assert {"privbench.duckdb", "result.json", "one.json"} <= {file.name for file in every}
    open_to = {file.name: stat.S_IMODE(file.stat().st_mode) & umask for file in every}
    assert not any(open_to.values()), open_to


def test_cluster_scripts_are_accessible_to_their_owner_only(umask: int, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    make_folder(store)
    make_folder(store)  # again, as every submission does
    assert stat.S_IMODE(folder(store).stat().st_mode) == 0o700
