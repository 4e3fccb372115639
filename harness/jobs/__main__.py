"""`python -m harness.jobs STORE KEY...`: see harness/jobs/loop.py."""

import atexit
import gc
import os
import sys

gc.disable()  # nothing that an import makes is garbage

from harness.accounting.lazy_package import defer  # noqa: E402
from harness.jobs.cublas import set_workspace  # noqa: E402
from workloads.threads import bound_threads  # noqa: E402

defer()  # before dp-accounting is imported
# Before torch and numpy are imported.
set_workspace()
bound_threads()

from harness.plan.changes.task_code import remember_code  # noqa: E402

remember_code()  # before it is loaded

from harness.jobs.loop import flush, main  # noqa: E402

gc.freeze()  # nor will it be: collections need not visit it
gc.enable()
code = main(sys.argv[1:])
atexit._run_exitfuncs()  # of plug-ins
flush()
os._exit(code)  # results are on disk: taking torch apart costs as much as some trainings
