"""Threads of numerical libraries."""

import os
import subprocess
import sys

from workloads.threads import LIBRARIES, THREADS, bound_threads


def test_libraries_get_one_thread_or_the_task_s_number() -> None:
    alone: dict[str, str] = {}
    bound_threads(alone)
    assert alone == dict.fromkeys(LIBRARIES, "1")
    task = {THREADS: "3"}
    bound_threads(task)
    assert task == {THREADS: "3", **dict.fromkeys(LIBRARIES, "3")}


def test_what_a_user_set_is_kept() -> None:
    given = {"OMP_NUM_THREADS": "8"}
    bound_threads(given)
    assert given == {"OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def test_the_command_line_bounds_them_before_numpy_loads() -> None:
    program = (
        "import atexit, os, sys\n"
        "import harness.cli.app as app\n"
        "assert not {'numpy', 'torch'} & set(sys.modules)\n"
        "atexit.register(lambda: print(os.environ['OPENBLAS_NUM_THREADS']))\n"
        "sys.argv = ['privbench', '--version']\n"
        "app.main()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in LIBRARIES}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "1"
