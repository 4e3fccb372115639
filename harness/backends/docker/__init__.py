"""The docker backend: every worker in a container of this machine."""

from harness.backends.docker.docker import Docker

__all__ = ["Docker", "backend"]

backend = Docker()
