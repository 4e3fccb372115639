"""Solve for a method's free parameter to meet a target epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.accounting import COUNT, SEARCHES, Free, calibrate
from harness.plan.declarations import solved_for
from methods.base import Calibrated, Extensible, Method, Params, Searched, Shaped
from workloads.errors import SpecError, unknown

if TYPE_CHECKING:
    from torch import nn


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


def solve(
    method: Method,
    params: Params,
    n_train: int,
    model: Callable[[int], nn.Module] | None,
    given: Collection[str] = (),
) -> Params:
    """Complete the parameters that depend on the model's shape, and the free one of a calibrated method.

    Args:
        method: The method.
        params: Its parameters, possibly without the free one.
        n_train: Members of a model.
        model: A fresh model from a seed; None if the parameters contain the shape.
        given: Names set by the user; with epsilon and the free one, the extent is solved for.
    """
    if isinstance(method, Shaped) and model is not None:
        params = method.shaped(params, model(0))
    name = solved_for(method, params.model_dump(), given)
    if not isinstance(method, Calibrated) or name is None:
        return params
    epsilon: float = params.epsilon  # type: ignore[attr-defined]  # a Calibrated method's Params hold both
    delta: float = params.delta  # type: ignore[attr-defined]
    free = find_search(method, name)
    if math.isinf(epsilon) and free.protects:
        return params.model_copy(update={name: 0.0})
    value = calibrate(
        lambda value: method.planned(params.model_copy(update={name: value}), n_train),
        epsilon,
        delta,
        free=free,
    )
    return params.model_copy(update={name: int(value) if free.whole else value})
