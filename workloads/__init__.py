"""Workloads: data and models to train. To add one: docs/add-a-workload.md.

1. Write `workloads/<group>.py` that binds `workloads = [...]`.
2. Write `workloads/recipes/<name>.toml` with its training settings and their sources.
3. Run `make test`: the contract tests find it.
"""

from typing import TYPE_CHECKING

from workloads import moved
from workloads.family import Family

if TYPE_CHECKING:  # listing errors and names must not load torch
    from workloads.base import Workload

family: "Family[Workload]" = Family("workload", __name__, "workloads", named_by="recipes/*.toml")

moved.install()
