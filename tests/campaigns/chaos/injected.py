"""Check the tests: known bugs are injected one at a time, and a test must fail for each.

    python -m tests.campaigns.chaos.injected

The tests must pass on the code as it is; then they run with each bug of bugs.py, in a forked process. Prints
which test caught which bug.
"""

import contextlib
import io
import os
import time
from pathlib import Path

import pytest
import torch

from tests.campaigns.chaos.bugs import BUGS
from tests.campaigns.chaos.campaign import arguments, close, forked, say

ROOT = Path(__file__).parents[3]
TESTS = (
    "tests/campaigns/chaos/test_durable.py",
    "tests/harness/jobs/test_run.py::test_streams_are_independent_and_depend_on_the_task_and_their_name_alone",
    "tests/harness/jobs/test_run.py::test_a_stopped_training_resumes_to_the_same_bits",
)


class Failed:
    """A plug-in of pytest that records which tests failed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See pytest."""
        if report.failed:
            self.names.append(report.nodeid.rpartition("::")[2].partition("[")[0])


def failures(bug: str | None) -> list[str]:
    """The tests that fail with a bug injected into this process."""
    if bug is not None:
        BUGS[bug]()
    failed = Failed()
    os.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(["-q", "-p", "no:cacheprovider", *TESTS], plugins=[failed])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(output.getvalue())
    return list(dict.fromkeys(failed.names))


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    arguments(__doc__, words)
    begin = time.monotonic()
    torch.set_num_threads(1)
    wrong = forked(failures, None)
    say(f"as it is: {f'failed: {wrong}' if wrong else 'all tests pass'}")
    missed = 0
    for bug in BUGS:
        found = forked(failures, bug)
        missed += not found
        say(f"{bug}: {'caught by ' + ', '.join(found) if found else 'MISSED'}")
    counts = {"mistakes": len(BUGS), "caught": len(BUGS) - missed}
    return close("injected", begin, counts, missed + len(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
