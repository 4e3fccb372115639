"""`python -m harness.job`: the entry point of images and job scripts made with privbench 0.1."""

import sys

from harness.jobs.cublas import set_workspace
from workloads.threads import bound_threads

# Before torch and numpy are imported.
set_workspace()
bound_threads()

from harness.jobs.loop import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
