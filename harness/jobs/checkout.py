"""The git state of a checkout; apart from provenance.py, which loads torch."""

import subprocess
from pathlib import Path


def git_state(checkout: Path) -> str | None:
    """The commit, with `-dirty` if modified; None outside a repository."""
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
