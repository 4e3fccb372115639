"""The scheduler's job and node that a process runs in, by what its backend's worker tells in variables."""

import os

JOB = "PRIVBENCH_JOB"
"""The job, as the scheduler's commands take it; unset where no scheduler runs the process."""
NODE = "PRIVBENCH_NODE"
"""The machine, by the scheduler's name for it."""


def scheduler_job() -> str | None:
    """The job that runs this process."""
    return os.environ.get(JOB)


def scheduler_node() -> str | None:
    """The node that runs this process."""
    return os.environ.get(NODE)
