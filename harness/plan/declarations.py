"""Declarations of methods: their role, the parameter to solve for, what counts as a configuration."""

from collections.abc import Collection, Mapping
from typing import Any

import methods
from harness.spec import Declared
from methods.base import Baseline, Calibrated, Extensible, Illustrated, Method, Nested, Role, Technical
from workloads.errors import BenchError


def named(role: Role) -> str:
    """The name of the only method with a role."""
    found = [name for name in sorted(methods.family.own) if role_of(name) == role]
    if len(found) != 1:
        raise BenchError(
            f"{len(found)} methods declare role = '{role}' ({', '.join(found) or 'none'}): exactly one must"
        )
    return found[0]


def role_of(name: str) -> Role | None:
    """The role of the method called `name`.

    A plug-in never has one, whatever it declares or inherits: the baseline must be the same in all stores.
    """
    method = methods.family.members.get(name)
    return method.role if isinstance(method, Baseline) and name in methods.family.own else None


def solved_for(method: Method, params: Mapping[str, Any], given: Collection[str] = ()) -> str | None:
    """The parameter that is solved for to meet the epsilon in `params`, if any.

    `given` names the parameters set by the user.
    """
    if not isinstance(method, Calibrated) or params.get("epsilon") is None:
        return None
    extended = isinstance(method, Extensible) and {"epsilon", method.free} <= set(given)
    return method.extent if extended and isinstance(method, Extensible) else method.free


def uncounted(method: Method) -> frozenset[str]:
    """Parameters that do not count as configuration: privacy budget, solved parameter, technical ones."""
    fields = method.Params.model_fields.items()
    technical = {name for name, info in fields if Technical() in info.metadata}
    free = {method.free} if isinstance(method, Calibrated) else set[str]()
    settled = {method.settled} if isinstance(method, Nested) else set[str]()
    return frozenset({"epsilon", "delta"} | technical | free | settled)


def declared_by(name: str, params: Mapping[str, Any], given: Collection[str] = ()) -> Declared:
    """The declaration of a method, for the notes of a cell's tasks."""
    method = methods.family.get(name)
    return Declared(role_of(name), solved_for(method, params, given), isinstance(method, Illustrated))
