"""Compute the epsilon of a method's planned releases: `privbench price METHOD`.

Does not load torch itself, and only the named method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

import methods
from harness.accounting import price
from harness.accounting.price_inputs import Form, check_common
from harness.accounting.pricelist import Quote, ceilings, without_data
from harness.plan.declarations import solved_for
from harness.plan.solving import overdetermined, solve
from methods.base import Budgeted, Calibrated, Method, Params, Quoted, Shaped
from workloads.errors import SpecError, unknown
from workloads.toml import parse_value

if TYPE_CHECKING:
    from torch import nn


TARGET = ("epsilon", "delta")
"""Parameters that are part of the guarantee."""


@dataclass(frozen=True)
class Setting:
    """What the price of a method depends on besides its parameters."""

    n_train: int
    model: Callable[[int], nn.Module] | None = None
    """A fresh model from a seed; None without a workload."""
    values: Mapping[str, Any] | None = None
    """Parameters of the workload's recipe."""


def quote_method(
    name: str,
    given: Mapping[str, Any],
    n_train: int | None,
    workload: str | None = None,
    target: float | None = None,
    delta: float | None = None,
    fprs: Sequence[float] = (),
) -> Quote:
    """Compute epsilon of a calibrated method's plan, or solve for its free parameter.

    Args:
        name: Of the method.
        given: Parameters that override the recipe and the defaults.
        n_train: Members of a model; None for that of the workload.
        workload: The source of model, recipe and `n_train`; may be None.
        target: Epsilon to solve for.
        delta: Of the guarantee; None for the method's own.
        fprs: False-positive rates for ceilings on attacks.
    """
    method = methods.family.load(name)
    if not isinstance(method, Calibrated):
        raise SpecError(unpriced(name, method))
    asked = _asked(name, method, given, target, delta)
    form = Form()
    check_common(form, 0.0 if delta is None else delta, target, fprs)
    _check(form, name, method, asked, n_train, workload)
    setting = _setting(name, method, n_train, workload, asked)
    params = build_params(name, method, {**(setting.values or {}), **asked})
    solved = solved_for(method, params.model_dump(), asked)
    try:
        params = solve(method, params, setting.n_train, setting.model, asked)
        event = method.planned(params, setting.n_train)
    except SpecError as error:
        if setting.model is None and isinstance(method, Shaped):
            raise SpecError(f"{error}; give --workload NAME to take it from its model") from None
        raise
    guarantee = without_data(price(event, params.delta))  # type: ignore[attr-defined]  # Calibrated
    values = {each: value for each, value in params.model_dump().items() if each not in TARGET}
    first = {each: value for each, value in values.items() if each in asked or each == solved}
    return Quote(
        name,
        {"n_train": setting.n_train, **first},
        guarantee,
        ceilings(event, guarantee, fprs),
        notes=_notes(method, params, solved),
        defaults={each: value for each, value in values.items() if each not in first},
    )


def parse_settings(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse --set NAME=VALUE options; each name once, and commas are part of the value."""
    found: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise SpecError(f"--set {assignment}: give NAME=VALUE")
        if name in found:
            raise SpecError(f"--set {assignment}: {name} was already given as {found[name]!r}: give it once")
        found[name] = parse_value(value)
    return found


def unpriced(name: str, method: Method) -> str:
    """Why a method that is not calibrated cannot be priced in advance, and what to do instead."""
    if isinstance(method, Budgeted):
        why = "spends its budget adaptively and stops at epsilon: the cost of a run is known when it ends"
    elif method.guarantee in ("none", "empirical"):
        why = f"has no epsilon (guarantee '{method.guarantee}')"
    else:
        why = "does not plan its releases"
    refusal = f"{name} cannot be priced in advance: it {why}"
    if isinstance(method, Quoted):
        return f"{refusal}; `privbench price {method.mechanism}` prices its mechanism"
    return refusal


def _asked(
    name: str, method: Method, given: Mapping[str, Any], target: float | None, delta: float | None
) -> dict[str, Any]:
    """All given parameters."""
    options = {"epsilon": target, "delta": delta}
    both = [each for each, value in options.items() if value is not None and each in given]
    if both:
        raise SpecError([f"{each} is given twice, as an option and by --set: give it once" for each in both])
    known = method.Params.model_fields
    strange = [unknown(f"parameter of {name}", each, known) for each in given if each not in known]
    if strange:
        raise SpecError(strange)
    return {**given, **{each: value for each, value in options.items() if value is not None}}


def _check(
    form: Form,
    name: str,
    method: Calibrated,
    asked: Mapping[str, Any],
    n_train: int | None,
    workload: str | None,
) -> None:
    form.number("--n-train", n_train, 1, open_low=False)
    form.needs(
        n_train is not None or workload is not None,
        "--n-train is missing: give the number of training records, or a --workload that has one",
    )
    if workload is None and not {"epsilon", method.free} & asked.keys():
        form.problems.append(
            f"give --set {method.free}=VALUE to get epsilon, or --target-epsilon to get {method.free}"
        )
    refusal = overdetermined(cast(Method, method), asked)
    form.needs(refusal is None, f"{name}: {refusal}")
    form.finish()


def _setting(
    name: str, method: Method, n_train: int | None, workload: str | None, asked: Mapping[str, Any]
) -> Setting:
    if workload is None:
        return Setting(cast(int, n_train))
    import workloads
    from workloads.recipe import recipe

    found = workloads.family.get(workload)
    settings = recipe(found).settings(name, method.Params.model_fields, None)
    values = {each: setting.at(asked.get("epsilon")) for each, setting in settings.items()}
    if isinstance(method, Calibrated) and method.free in asked:
        values.pop("epsilon", None)  # epsilon is the result, not the target
    return Setting(n_train or found.n_train, found.model, values)


def build_params(name: str, method: Method, values: Mapping[str, Any]) -> Params:
    """The parameters of a method; SpecError with a line for every invalid value."""
    try:
        return method.Params(**values)
    except ValidationError as error:
        raise SpecError(
            [
                f"{name}: {'.'.join(map(str, each['loc']))}{' ' if each['loc'] else ''}"
                f"{each['msg'].removeprefix('Value error, ')}"
                for each in error.errors()
            ]
        ) from None


def _notes(method: Method, params: Params, solved: str | None) -> tuple[str, ...]:
    notes = []
    if solved is not None:
        value, epsilon = getattr(params, solved), params.epsilon  # type: ignore[attr-defined]
        notes.append(f"{solved} = {value:.6g} was solved for epsilon {epsilon:g}")
    if method.guarantee not in ("approximate-dp", "pure-dp"):
        notes.append(f"the guarantee of the method is '{method.guarantee}': see its caveats")
    return tuple(notes)
