"""Hold a family member to a check of its contract, as a test."""

from typing import TypeVar

import pytest

from harness.checks.contract import Check, Skipped

Subject = TypeVar("Subject")


def hold(check: Check[Subject], subject: Subject) -> str | None:
    """Perform a check; skip the test if it does not apply. Returns the warning, if any."""
    try:
        return check(subject)
    except Skipped as reason:
        pytest.skip(str(reason))
