"""The state of our own code: a release by its version, a checkout by a digest of its files."""

import hashlib
from functools import cache
from pathlib import Path

from workloads.fingerprint import in_checkout, release

ROOT = Path(__file__).resolve().parents[2]
DECLARING = ("harness/attacks", "harness/members", "methods", "workloads")
"""Folders of what our members declare."""
RESOLVING = (
    *("harness/__init__.py", "harness/spec.py"),
    *("harness/accounting", "harness/attacks", "harness/leakage", "harness/members", "harness/plan"),
    *("methods", "workloads"),
)
"""Files and folders of what turns a sweep into tasks, with the recipes."""


@cache
def own_state(*places: str) -> str:
    """What identifies our own code and recipes in these places, below the folder of the packages."""
    return f"sources {digest_of(*places)}" if in_checkout() else f"release {release()}"


def digest_of(*places: str) -> str:
    """The SHA-256 of every module and recipe in these places, byte for byte: cheap, and never wrong."""
    found = hashlib.sha256()
    for file in sorted(file for place in places for file in _files(ROOT / place)):
        content = file.read_bytes()
        found.update(f"{file.relative_to(ROOT)} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [file for suffix in ("py", "toml") for file in place.rglob(f"*.{suffix}")]
