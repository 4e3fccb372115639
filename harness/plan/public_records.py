"""Public records of methods that need them."""

import workloads
from methods.base import Assisted, Method
from workloads.base import Public, Records, Workload
from workloads.errors import SpecError


def find_lack(workload: Workload, method: Method) -> str | None:
    """Why the method cannot be trained: the workload lacks public records; None if it can."""
    if not isinstance(method, Assisted) or isinstance(workload, Public):
        return None
    able = ", ".join(name for name, each in workloads.family.members.items() if isinstance(each, Public))
    return (
        f"the method needs public records for {method.public_use}, but {workload.name} declares none; "
        f"give one of: {able}"
    )


def public_records(workload: Workload, method: Method) -> Records | None:
    """The workload's public records for a method that needs them, None for any other.

    Raises:
        SpecError: The method needs them and the workload declares none.
    """
    lack = find_lack(workload, method)
    if lack is not None:
        raise SpecError(lack)
    return workload.public() if isinstance(method, Assisted) and isinstance(workload, Public) else None
