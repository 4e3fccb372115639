"""Docker containers on this machine: one around every worker."""

from harness.backends.docker.docker import Docker

__all__ = ["Docker", "backend"]

backend = Docker()
