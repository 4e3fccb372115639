"""Numbers of records of workloads, for display: known for ours, counted once for all others and kept."""

from harness.members.manifest import is_plugin, shipped, workload_facts
from harness.members.own_sources import DECLARING, own_state
from harness.plan.changes.kept import kept_for
from harness.spec import Json
from workloads.errors import BenchError


def sizes_of(name: str) -> Json:
    """The numbers of records in pool and test, or what is missing to count them, as `data`."""
    facts = workload_facts(name)
    known: Json = shipped()["sizes"].get(name, {})
    if not is_plugin("workload", name) and known.get("version") == facts.version:
        return {"pool": known["pool"], "test": known["test"]}
    if facts.dataset is not None and (reason := find_absence(facts.dataset)):
        return _unknown(reason)
    try:
        return kept_for(name, f"numbers of records, {own_state(*DECLARING)}", lambda: _counted(name))
    except BenchError as error:
        return _unknown(str(error))


def _counted(name: str) -> Json:
    """The numbers; BenchError with what is missing, which is not kept."""
    found = count(name)
    if found["pool"] is None:
        raise BenchError(found["data"])
    return found


def count(name: str) -> Json:
    """Load the records and count them, unless that would take minutes."""
    import workloads
    from workloads.base import Prepared

    workload = workloads.family.get(name)
    if isinstance(workload, Prepared) and (reason := workload.unprepared()):
        return _unknown(reason)
    try:
        return {"pool": len(workload.pool()), "test": len(workload.test())}
    except BenchError as error:
        return _unknown(str(error))


def _unknown(reason: str) -> Json:
    return {"pool": None, "test": None, "data": reason}


def find_absence(dataset: str) -> str | None:
    """Why a published data set cannot be read; None if it is there."""
    from workloads import data
    from workloads.data.dataset import Published

    found = data.family.load(dataset)
    return found.absence() if isinstance(found, Published) and found.location() is None else None
