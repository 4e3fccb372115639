"""Where and with what a result was made: stored beside every number, never part of a key."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("privbench", "torch", "opacus", "dp-accounting", "numpy", "scipy", "scikit-learn")


@cache
def provenance() -> dict[str, str | int | None]:
    """Host, device, threads, versions and git state of this process."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "processor": processor(),
        "device": device_name(),
        "threads": torch.get_num_threads(),
        "git": git_state(),
        "malloc": os.environ.get("LD_PRELOAD") or None,
        **{name: installed(name) for name in PACKAGES},
    }


def installed(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def device_name() -> str:
    """The GPU's name, or `cpu`."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def processor() -> str:
    """The CPU's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def git_state() -> str | None:
    """The commit this code runs from, `-dirty` if altered; None for an installed wheel."""
    here = Path(__file__).resolve().parent.parent
    if not (here / ".git").exists():
        return None
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
