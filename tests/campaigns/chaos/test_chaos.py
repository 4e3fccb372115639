"""The short form of every campaign: `python -m tests.campaigns.chaos --short`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
CAMPAIGNS = 6
Found = dict[str, dict[str, Any]]
"""Campaign to its counts."""


@pytest.fixture(scope="module")
def found() -> Found:
    """The counts of the short form of every campaign, in one process that loads torch once."""
    # The checkout first: the campaigns are not installed.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.campaigns.chaos", "--short"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    lines = dict(re.findall(r"^campaign (\w+): (\{.*\})$", done.stdout, re.MULTILINE))
    assert len(lines) == CAMPAIGNS, done.stdout + done.stderr
    return {name: json.loads(text) for name, text in lines.items()}


def unbroken(found: Found, name: str) -> dict[str, Any]:
    """The counts of a campaign that has broken nothing."""
    assert found[name]["broken"] == 0, found[name]
    return found[name]


def test_nothing_is_lost_doubled_or_different_whatever_is_killed(found: Found) -> None:
    counts = unbroken(found, "kills")
    assert counts["kills"] >= 6
    assert counts["lost"] == counts["doubled"] == counts["different"] == 0


def test_damaged_files_are_rebuilt_or_reported(found: Found) -> None:
    counts = unbroken(found, "damage")
    outcomes = {name.partition(": ")[2] for name in counts if ": " in name}
    assert outcomes <= {"equal", "reported"}
    assert sum(number for name, number in counts.items() if ": " in name) >= 2


def test_full_disks_and_jumping_clocks_change_no_row(found: Found) -> None:
    counts = unbroken(found, "disk")
    assert counts["clock: jumped"] == 1


def test_concurrent_processes_give_the_rows_of_one_with_locks_and_without(found: Found) -> None:
    counts = unbroken(found, "crowd")
    assert counts["locks"] == counts["no locks"] == 8


def test_any_order_and_packing_gives_the_same_bits(found: Found) -> None:
    assert unbroken(found, "order")["orders"] == 2


def test_known_bugs_are_caught(found: Found) -> None:
    counts = unbroken(found, "injected")
    assert counts["caught"] == counts["mistakes"] == 5
