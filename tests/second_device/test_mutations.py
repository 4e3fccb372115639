"""The short form of `python -m tests.second_device`: two of its mutations are caught."""

import pytest

from tests.campaigns.mutations.__main__ import campaign
from tests.second_device.fixtures import on_second
from tests.second_device.mutations import MUTATIONS

ONE_THAT_MIXES = "sgd's model stays on the host"
ONE_THAT_WAITS = "row numbers are copied from pageable memory"


@pytest.mark.slow
@pytest.mark.usefixtures("device")
@on_second
def test_two_are_caught(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [each for each in MUTATIONS if each.change in (ONE_THAT_MIXES, ONE_THAT_WAITS)]
    assert campaign(chosen) == 0
    assert "mutations: 2 of 2 caught" in capsys.readouterr().out
