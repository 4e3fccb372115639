"""Methods of training. To add one: docs/add-a-method.md.

1. Write `methods/<name>.py` with a class that satisfies methods.base.Method and bind
   `method = YourMethod()`.
2. If a workload needs other settings for it, add `[method.<name>]` to its recipe.
3. Run `make test`: the contract tests find it.
"""

from typing import TYPE_CHECKING

from workloads import moved
from workloads.family import Family

if TYPE_CHECKING:  # listing errors and names must not load torch
    from methods.base import Method

family: "Family[Method]" = Family("method", __name__, "method")

moved.install()
