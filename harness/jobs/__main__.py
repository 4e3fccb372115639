"""`python -m harness.jobs STORE KEY...`: see harness/jobs/loop.py."""

import sys

from harness.jobs.loop import main

raise SystemExit(main(sys.argv[1:]))
