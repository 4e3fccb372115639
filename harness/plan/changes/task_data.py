"""The fingerprint of a workload's records: shapes, dtypes and keyed digests of pool and test records."""

import logging

from harness.plan.changes.kept import kept_for
from harness.spec import Json
from harness.store.fingerprints import key_name, keyed
from workloads.errors import BenchError

log = logging.getLogger(__name__)

FORMAT = 1
"""Raised when the fingerprint of the same records changes."""


def data_now(workload: str, secret: bytes) -> Json | None:
    """The fingerprint of a workload's records on this machine; None if they cannot be read at once.

    Loads torch and the records unless the answer is kept.
    """

    def compute() -> Json:
        import workloads
        from workloads.base import Prepared
        from workloads.records import describe

        member = workloads.family.get(workload)
        if isinstance(member, Prepared) and (reason := member.unprepared()):
            raise BenchError(reason)
        return keyed({"pool": describe(member.pool()), "test": describe(member.test())}, secret)

    try:
        return kept_for(workload, _question(secret), compute)
    except Exception as error:  # noqa: BLE001 - a plug-in's own; data that are elsewhere are no change
        log.info("the records of %s cannot be compared here: %s", workload, error)
        return None


def keep_data(workload: str, described: Json, secret: bytes) -> Json:
    """Key what a task has described of its records, and keep it for the next plan on this machine."""
    found = keyed(described, secret)
    kept_for(workload, _question(secret), lambda: found, anew=True)
    return found


def _question(secret: bytes) -> str:
    return f"records {FORMAT} by {key_name(secret)}"
