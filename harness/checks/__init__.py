"""The contracts of workloads, methods and attacks, for `privbench check` and the project's own tests.

A check is a function of a subject, such as a method with a short training of it. It raises `Broken` with what
was found, or `Skipped` where it does not apply.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from harness.checks.contract import Finding

Family = Literal["workload", "method", "attack"]


def check_member(family: Family, name: str) -> "tuple[int, Iterator[Finding]]":
    """The number of checks of a family's contract, and their findings on one member as they come.

    UnknownName if the family has no member of this name.
    """
    from harness.checks import contract

    if family == "workload":
        from harness.checks.workload_contract import workload_checks

        checks, subject = workload_checks(name)
        return len(checks), contract.hold(checks, subject)
    if family == "method":
        from harness.checks.method_contract import method_checks
        from harness.checks.release_contract import RELEASES

        several, trained = method_checks(name)
        return len(several) + len(RELEASES), contract.hold([*several, *RELEASES], trained)
    from harness.checks.attack_contract import attack_checks

    demands, attack = attack_checks(name)
    return len(demands), contract.hold(demands, attack)
