"""Compute the epsilon of a private search for every distribution of its number of trainings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from dp_accounting import DpEvent, GaussianDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent

import methods
from harness.accounting import calibrate, price
from harness.accounting.price_inputs import Form, check_common
from harness.plan.method_price import build_params, unpriced
from harness.plan.solving import find_search
from methods.base import Calibrated, Method
from methods.mechanisms.events import ParallelDpEvent
from methods.mechanisms.trial_count import POISSON, TrialCount
from workloads.errors import SpecError, unknown

NAMES = {0.0: "logarithmic", 1.0: "geometric", POISSON: "Poisson"}
"""The distributions that are always shown, by their shape."""


def quote_search(
    base: str,
    given: Mapping[str, Any],
    n_train: int | None,
    mean: float,
    shape: float | None,
    score_noise: float,
    delta: float,
    target: float | None,
) -> dict[str, Any]:
    """Price the best of a random number of trainings of a base method, or solve for its free parameter.

    Args:
        base: The method of each training.
        given: Its parameters.
        n_train: Records of a training, without those held out.
        mean: Expected number of trainings.
        shape: A distribution besides the logarithmic, geometric and Poisson one.
        score_noise: On the number of correct held-out records.
        delta: Of the guarantee.
        target: Epsilon of the search to solve for.
    """
    method = methods.family.load(base)
    if not isinstance(method, Calibrated):
        raise SpecError(unpriced(base, method))
    _check(base, method, given, n_train, mean, shape, score_noise, delta, target)
    records = n_train or 0
    params = build_params(base, cast(Method, method), {"epsilon": 1.0, **given})

    def training(value: float) -> DpEvent:
        return method.planned(params.model_copy(update={method.free: value}), records)

    rows, assumed = [], dict[str, None]()
    for each in dict.fromkeys([*NAMES, *([] if shape is None else [float(shape)])]):

        def search(value: float, each: float = each) -> DpEvent:
            trial = ParallelDpEvent((training(value), GaussianDpEvent(score_noise)))
            return RepeatAndSelectDpEvent(trial, mean, each)

        free = replace(find_search(method, method.free), name=method.free)
        value = given[method.free] if target is None else calibrate(search, target, delta, free=free)
        whole, one, count = price(search(value), delta), price(training(value), delta), TrialCount(mean, each)
        assumed |= dict.fromkeys(whole.assumptions)
        rows.append(
            {
                "distribution": NAMES.get(each, "negative binomial"),
                "shape": each,
                "epsilon": whole.epsilon,
                "base_epsilon": one.epsilon,
                method.free: value,
                "median_trials": count.quantile(0.5),
                "trials_95": count.quantile(0.95),
            }
        )
    settings = {"base": base, "n_train": records, **given, "mean": mean, "score_noise": score_noise}
    return {"settings": settings | {"delta": delta}, "distributions": rows, "assumptions": list(assumed)}


def _check(
    base: str,
    method: Calibrated,
    given: Mapping[str, Any],
    n_train: int | None,
    mean: float,
    shape: float | None,
    score_noise: float,
    delta: float,
    target: float | None,
) -> None:
    form = Form()
    check_common(form, delta, target, ())
    form.needs(n_train is not None, "--n-train is missing: give the number of records of a training")
    form.number("--n-train", n_train, 1, open_low=False)
    form.number("--mean", mean, 1, open_low=False)
    form.number("--score-noise", score_noise, 0, open_low=False)
    form.needs(shape is None or shape >= 0, f"--shape must be >= 0, got {shape}: inf is Poisson")
    known = cast(Method, method).Params.model_fields
    form.problems += [unknown(f"parameter of {base}", name, known) for name in given if name not in known]
    form.needs(
        (method.free in given) != (target is not None),
        f"give either --set {method.free}=VALUE to get epsilon, or --target-epsilon to get {method.free}",
    )
    form.finish()
