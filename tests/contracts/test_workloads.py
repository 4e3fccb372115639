"""The contract of workloads. A new file in workloads/ is tested by existing."""

import pytest

import workloads
from harness.checks import workload_contract as contract
from harness.checks.contract import Check
from harness.checks.workload_contract import WORKLOAD, CheckedWorkload
from harness.cli.members import page
from tests.contracts.held import hold
from workloads.base import Fetched

# Grouped by workload, so that the records of a large one are read once.
every_workload = pytest.mark.parametrize(
    "name",
    [
        # Those on published data run with the slow tests, where the data are.
        pytest.param(name, marks=pytest.mark.data if isinstance(member, Fetched) else ())
        for name, member in sorted(workloads.family.members.items())
    ],
    scope="module",
)


@pytest.fixture(scope="module")
def subject(name: str) -> CheckedWorkload:
    """One for all checks of a workload: its records are inspected once."""
    return CheckedWorkload(name)


@pytest.mark.parametrize("check", WORKLOAD, ids=lambda check: check.name)
@every_workload
def test_it_holds_its_contract(check: Check[CheckedWorkload], subject: CheckedWorkload) -> None:
    hold(check, subject)


@every_workload
def test_our_own_can_be_trained_by_every_private_method(name: str, subject: CheckedWorkload) -> None:
    if name in workloads.family.own:
        assert hold(contract.suits_per_example_methods, subject) is None


@every_workload
def test_its_page_shows_the_recipe_with_sources(name: str) -> None:
    rows = page("workload", name)["recipe"]
    assert rows
    assert {row["source"] for row in rows} <= {"paper", "ours", "tuned"}
