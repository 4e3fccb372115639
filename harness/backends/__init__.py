"""Backends: where jobs run. Each takes jobs and returns a handle (harness/backends/base.py)."""

from harness.backends.base import Backend
from harness.backends.local import Local

BACKENDS: dict[str, type[Backend]] = {"local": Local}
