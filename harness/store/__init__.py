"""The store: the folder that holds everything, and who may write to it."""

from harness.store.store import AGAIN, BEAT_OLD_SECONDS, Store, heartbeat, read_result

__all__ = ["AGAIN", "BEAT_OLD_SECONDS", "Store", "heartbeat", "read_result"]
