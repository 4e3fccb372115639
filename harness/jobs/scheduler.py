"""The scheduler's job and node of this process, from variables that the backend sets."""

import os

JOB = "PRIVBENCH_JOB"
"""The job id, as the scheduler's commands take it; unset without a scheduler."""
NODE = "PRIVBENCH_NODE"
"""The scheduler's name of the machine."""


def scheduler_job() -> str | None:
    """The job that runs this process."""
    return os.environ.get(JOB)


def scheduler_node() -> str | None:
    """The node that runs this process."""
    return os.environ.get(NODE)
