"""Solve for a method's free parameter to meet a target epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from harness.accounting import COUNT, SEARCHES, Free, calibrate
from harness.plan.declarations import solved_for
from methods.base import Calibrated, Extensible, Method, Nested, Params, Searched, Shaped
from workloads.errors import SpecError, unknown

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from torch import nn


class Solver(Protocol):
    """`calibrate`, or another way to the same solutions."""

    def __call__(
        self, event_of: Callable[[float], DpEvent], target_epsilon: float, delta: float, *, free: Free
    ) -> float:
        """The value of the free parameter at which the event costs (target_epsilon, delta)."""
        ...


def overdetermined(method: Method, given: Collection[str]) -> str | None:
    """Why these parameters leave nothing to solve for, if so."""
    if not isinstance(method, Calibrated) or not {"epsilon", method.free} <= set(given):
        return None
    if not isinstance(method, Extensible):
        return f"{method.free} is solved from epsilon: give one of the two"
    if method.extent in given:
        return f"epsilon, {method.free} and {method.extent} are given: give two, and the third is solved for"
    return None


def find_search(method: Calibrated, name: str) -> Free:
    """How to search for a method's free parameter, or its extent."""
    if isinstance(method, Extensible) and name == method.extent:
        return replace(COUNT, name=name)
    kind = method.free_kind if isinstance(method, Searched) else "noise"
    if kind not in SEARCHES:
        raise SpecError(f"'{type(method).__name__}' {unknown('free_kind', kind, SEARCHES)}")
    return replace(SEARCHES[kind], name=name)


def solve_noise(
    event: Callable[[float], DpEvent], epsilon: float, delta: float, solver: Solver = calibrate
) -> float:
    """The noise at which an event costs (epsilon, delta): for trials of methods that spend a budget."""
    return solver(event, epsilon, delta, free=SEARCHES["noise"])


def solve(
    method: Method,
    params: Params,
    n_train: int,
    model: Callable[[int], nn.Module] | None,
    given: Collection[str] = (),
    solver: Solver = calibrate,
) -> Params:
    """Complete the parameters that depend on the model's shape, and the free one of a calibrated method.

    Args:
        method: The method.
        params: Its parameters, possibly without the free one.
        n_train: Members of a model.
        model: A fresh model from a seed; None if the parameters contain the shape.
        given: Names set by the user; with epsilon and the free one, the extent is solved for.
        solver: Solves for the parameter.
    """
    if isinstance(method, Shaped) and model is not None:
        params = method.shaped(params, model(0))
    name = solved_for(method, params.model_dump(), given)
    if not isinstance(method, Calibrated) or name is None:
        return settle(method, params, n_train, solver)
    epsilon: float = params.epsilon  # type: ignore[attr-defined]  # a Calibrated method's Params hold both
    delta: float = params.delta  # type: ignore[attr-defined]
    free = find_search(method, name)
    if math.isinf(epsilon) and free.protects:
        return params.model_copy(update={name: 0.0})

    def complete(value: float) -> Params:
        return settle(method, params.model_copy(update={name: value}), n_train, solver)

    value = solver(lambda value: method.planned(complete(value), n_train), epsilon, delta, free=free)
    return complete(int(value) if free.whole else value)


def settle(method: Method, params: Params, n_train: int, solver: Solver = calibrate) -> Params:
    """Complete what follows from the free parameter: the noise of trainings inside of a search."""
    if not isinstance(method, Nested):
        return params
    settled: Params = method.settle(
        params, n_train, lambda inner, asked, count: solve(inner, asked, count, None, solver=solver)
    )
    return settled
