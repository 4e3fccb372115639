"""The local backend: worker processes of this machine."""

from harness.backends.local.local import Local

__all__ = ["Local", "backend"]

backend = Local()
