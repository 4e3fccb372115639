"""Plain worker processes of this machine, on the queue of harness/backends/machine."""

from typing import ClassVar

from harness.backends.machine.queue import Queued


class Local(Queued):
    """Runs jobs in worker processes of this machine."""

    name = "local"
    about: ClassVar[str] = "worker processes of this machine"
    reads_here: ClassVar[bool] = True
