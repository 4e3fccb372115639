"""`python -m harness.jobs STORE KEY...`: see harness/jobs/loop.py."""

import sys

from harness.jobs.cublas import set_workspace

set_workspace()  # before torch is imported

from harness.jobs.loop import main  # noqa: E402

raise SystemExit(main(sys.argv[1:]))
