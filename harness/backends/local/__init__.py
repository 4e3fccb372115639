"""The machine itself: worker processes, fed from a queue in the store by a supervisor."""

from harness.backends.local.local import Local

__all__ = ["Local", "backend"]

backend = Local()
