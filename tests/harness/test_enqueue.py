"""The settings that a sweep is submitted and resubmitted with."""

from typing import TYPE_CHECKING

import pytest

from harness.cli import sweeps

if TYPE_CHECKING:
    from tests.harness.conftest import Lab


@pytest.mark.slow
def test_a_retry_runs_as_the_sweep_was_sent_except_for_its_options(lab: "Lab") -> None:
    deaf = lab.task(trouble="deaf")  # without a time limit it would exceed the test's timeout
    lab.send([deaf], slots=1, timeout_seconds=1.5)
    lab.wait_for(deaf)
    sweeps.retry("sweep", store=lab.store.path)
    lab.wait_for(deaf)
    assert lab.result(deaf).message == "ran longer than 1.5 s"
    sweeps.retry("sweep", timeout=2.5, store=lab.store.path)
    lab.wait_for(deaf)
    assert lab.result(deaf).message == "ran longer than 2.5 s"
    assert len(list((lab.store.folder(deaf.key) / "failures").iterdir())) == 2
