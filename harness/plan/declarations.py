"""What methods declare of themselves: who is the baseline, what is solved for, what counts as a setting."""

from collections.abc import Collection, Mapping
from typing import Any

import methods
from harness.spec import Declared
from methods.base import Baseline, Calibrated, Extensible, Illustrated, Method, Role, Technical
from workloads.errors import BenchError


def named(role: Role) -> str:
    """The name of the method with a role."""
    found = [name for name in sorted(methods.family.own) if role_of(name) == role]
    if len(found) != 1:
        raise BenchError(
            f"{len(found)} methods declare role = '{role}' ({', '.join(found) or 'none'}): one must"
        )
    return found[0]


def role_of(name: str) -> Role | None:
    """The role of the method called `name`.

    A plug-in has none, whatever it declares or inherits: two stores must not differ in what they call 1.
    """
    method = methods.family.members.get(name)
    return method.role if isinstance(method, Baseline) and name in methods.family.own else None


def solved_for(method: Method, params: Mapping[str, Any], given: Collection[str] = ()) -> str | None:
    """The parameter that is solved for to meet the epsilon in `params`; None where there is none.

    `given` names the parameters that were given beside the defaults and the recipe's values.
    """
    if not isinstance(method, Calibrated) or params.get("epsilon") is None:
        return None
    extended = isinstance(method, Extensible) and {"epsilon", method.free} <= set(given)
    return method.extent if extended and isinstance(method, Extensible) else method.free


def uncounted(method: Method) -> frozenset[str]:
    """Parameters that make no other configuration: privacy asked for, what buys it, how it is computed."""
    fields = method.Params.model_fields.items()
    technical = {name for name, info in fields if Technical() in info.metadata}
    free = {method.free} if isinstance(method, Calibrated) else set[str]()
    return frozenset({"epsilon", "delta"} | technical | free)


def declared_by(name: str, params: Mapping[str, Any], given: Collection[str] = ()) -> Declared:
    """What is noted with the tasks of a cell of the method called `name`."""
    method = methods.family.get(name)
    return Declared(role_of(name), solved_for(method, params, given), isinstance(method, Illustrated))
