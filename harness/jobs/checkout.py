"""The git state of a checkout; without torch, which everything else about provenance needs."""

import subprocess
from pathlib import Path


def git_state(checkout: Path) -> str | None:
    """Its commit, `-dirty` if altered; None where it has no history."""
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
