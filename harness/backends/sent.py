"""What was sent, where and how, read from the record of a sweep."""

from harness.backends import DEFAULT, family
from harness.backends.base import Settings, read_settings
from harness.store import Store
from harness.store.journal import SweepRecord
from workloads.errors import StoreError


def sent_backend(sweep: SweepRecord) -> str:
    """Where a sweep was sent; a record that does not tell is of the machine itself."""
    return sweep.backend or DEFAULT


def sent_settings(sweep: SweepRecord, backend: str | None = None) -> Settings:
    """How a sweep was sent, for `backend` where one is given: a profile of another one is left out.

    StoreError where the record holds what this version does not know.
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
    """The tasks of a sweep that have no result."""
    keys = [entry.key for entry in store.sweep(sweep).tasks]
    return {key for key in keys if store.result(key, summed=False) is None}
