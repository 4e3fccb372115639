"""The data set of a workload, by which cells and published lines on different networks are compared."""

from harness.members.facts import WorkloadFacts
from harness.members.manifest import find_facts


def find_dataset(workload: str | None) -> str | None:
    """The published data set that a workload's records are read from.

    None for records of its own, and for a workload that is not here.
    """
    facts = find_facts("workload", workload)
    return facts.dataset if isinstance(facts, WorkloadFacts) else None
