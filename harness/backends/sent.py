"""Backend and settings of a submitted sweep, read from its record."""

from harness.backends import DEFAULT, family
from harness.backends.base import Settings, read_settings
from harness.store import Store
from harness.store.journal import SweepRecord
from workloads.errors import StoreError


def sent_backend(sweep: SweepRecord) -> str:
    """The backend of a sweep; the local machine in old records without one."""
    return sweep.backend or DEFAULT


def sent_settings(sweep: SweepRecord, backend: str | None = None) -> Settings:
    """The settings of a sweep, for `backend` if given: the profile of another backend is dropped.

    StoreError if the record holds settings unknown to this version.
    """
    chosen = backend or sent_backend(sweep)
    content = sweep.settings
    try:
        if chosen != sent_backend(sweep):
            content = {**content, "profile": None}
        return read_settings(content, family.get(chosen).Profile)
    except (ValueError, TypeError) as error:
        raise StoreError(f"the sweep's record was made by another version of privbench: {error}") from error


def unfinished(store: Store, sweep: str) -> set[str]:
    """The tasks of a sweep without a result."""
    keys = [entry.key for entry in store.sweep(sweep).tasks]
    return {key for key in keys if store.result(key, verify=False) is None}
