"""The store: the folder of tasks, results, artefacts and sweeps, and its locks."""

from harness.store.store import HEARTBEAT_STALE_SECONDS, RERUN_REASONS, Store, heartbeat, read_result

__all__ = ["HEARTBEAT_STALE_SECONDS", "RERUN_REASONS", "Store", "heartbeat", "read_result"]
