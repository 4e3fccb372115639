"""Backends: where jobs run. To add one: docs/add-a-backend.md.

1. Write a folder `harness/backends/<name>/` with a class that derives from harness.backends.base.Backend and
   bind `backend = YourBackend()` in its `__init__.py`; it holds its profile, its status and its worker.
2. Run `make test`: the contract tests find it.

Modules and folders without a `backend` are shared: packs and their schedule, GPUs, and
`machine/`, a queue with a supervisor and worker processes on this machine.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from workloads.family import Family

if TYPE_CHECKING:  # naming the default must not load the store
    from harness.backends.base import Backend

DEFAULT = "local"
"""The backend if none is named."""


class Backends(Family["Backend"]):
    """The family of backends; sets the name of every member."""

    @cached_property
    def members(self) -> "dict[str, Backend]":
        """See Family."""
        found = super().members
        for name, member in found.items():
            member.name = name
        return found


family = Backends("backend", __name__, "backend")
