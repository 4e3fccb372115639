"""Provenance of a result: hardware, software and job; never part of a key."""

import contextlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import torch

from harness.jobs.checkout import git_state
from harness.jobs.device import Identity, accelerator, arithmetic
from harness.jobs.scheduler import scheduler_job, scheduler_node
from harness.plan.changes.task_code import asked_of, code_of
from harness.plan.changes.task_data import keep_data
from harness.spec import Json, Task
from harness.store import Store
from harness.store.fingerprints import store_secret, write_sources

PACKAGES = ("privbench", "torch", "opacus", "dp-accounting", "numpy", "scipy", "scikit-learn")


def provenance(device: torch.device | None) -> Identity:
    """Host, device, arithmetic, memory, versions, git state, image and job of this process.

    `device` is None if it was unavailable.
    """
    card: Identity = {"device": None}
    if device is not None:
        card = {"device": accelerator(device).name, **accelerator(device).identity()}
    return {**surroundings(), **card, "threads": torch.get_num_threads(), **arithmetic()}


def code_and_data(task: Task, described: Json, store: Store) -> Json:
    """The fingerprints of a task's code and of the records it used; the store keeps what is behind them."""
    parts = _code(asked_of(task))
    for part in parts.values():
        write_sources(store, part.digest, part.files)
    found: Json = {"code": {name: part.digest for name, part in parts.items()}}
    with contextlib.suppress(OSError):  # a full disk must not fail a task
        if described and (secret := store_secret(store, create=True)) is not None:
            found["data"] = keep_data(task.cell.workload.name, described, secret)
    return found


_code = cache(code_of)
"""Of this process: what it has loaded does not change."""


@cache
def surroundings() -> Identity:
    """The part that is the same for all tasks of this process."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "processor": processor(),
        "memory_bytes": psutil.virtual_memory().total,
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "node": scheduler_node(),
        "job": scheduler_job(),
        "git": own_git_state(),
        "image": os.environ.get("PRIVBENCH_IMAGE"),
        "malloc": os.environ.get("LD_PRELOAD") or None,
        **{name: installed(name) for name in PACKAGES},
    }


def installed(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The CPU's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def own_git_state() -> str | None:
    """The commit of this code; of an installed wheel it is known only in an image, by PRIVBENCH_GIT."""
    return git_state(Path(__file__).resolve().parents[2]) or os.environ.get("PRIVBENCH_GIT")
