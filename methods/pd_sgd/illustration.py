"""Figures of PD-SGD's privacy test: the paper's theory and settings, and its experiment as measured."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from methods.pd_sgd.theory import (
    DIMENSION,
    corollary_1,
    half_accepted_at,
    lemma_2,
    normalised_distance,
    plausibility,
    rejected_from,
)
from workloads.drawings import Dot, Drawing, DrawnPanel, DrawnTable, Line, Printed, Style, Trained

GAMMAS = (1.0, 2.0, 4.0, 10.0)
DELTAS = (0.05, 1e-5)
SIGMAS = tuple(round(0.1 * step, 1) for step in range(1, 11))
BOUNDS: Mapping[str, Callable[..., np.ndarray]] = {
    "q": plausibility,
    "Lemma 2": lemma_2,
    "Corollary 1": corollary_1,
}
STYLES: Mapping[str, Style] = {"q": "-", "Lemma 2": "--", "Corollary 1": ":"}
KINDS = ("anomalous", "normal")
"""Of seed batches."""
SETTINGS = "pd-sgd-table-13"
GIVEN = ("sigma", "gamma", "T")
"""Parameters that identify a setting."""
DISTANCE = "distance of the batches' gradients / sigma"


def illustrate(trained: Sequence[Trained], printed: Sequence[Printed]) -> Drawing:
    """Lemma 1, its bounds, the paper's settings; Figure 1 twice, Figure 3; and tables of values."""
    settings = readable_settings(printed)
    distances = (distance_panel(delta) for delta in DELTAS)
    return Drawing(
        title="PD-SGD: which batches pass its privacy test",
        about="Lemmas 1 and 2, Corollary 1, Table 13, Figures 1 and 3 of the PD-SGD paper",
        panels=(
            plausibility_panel(),
            bounds_panel(),
            settings_panel(settings),
            *distances,
            experiment_panel(trained),
        ),
        tables=(distances_table(), probabilities_table(), settings_table(settings)),
        level="gamma",
    )


# -- panels ----------------------------------------------------------------------------------------


def plausibility_panel() -> DrawnPanel:
    """q against the distance, with a dot where about half of the batches pass."""
    near = np.linspace(0, 9, 181)
    halves = [half_accepted_at(gamma) for gamma in GAMMAS]
    return DrawnPanel(
        "plausibility",
        "Lemma 1: a batch passes; dot: sqrt(2 gamma)",
        DISTANCE,
        "probability q",
        lines=tuple(
            Line("q", plain(near), plain(plausibility(near, gamma)), f"gamma {gamma:g}", gamma, place)
            for place, gamma in enumerate(GAMMAS)
        ),
        dots=tuple(
            Dot(half, float(plausibility(half, gamma)), place)
            for place, (half, gamma) in enumerate(zip(halves, GAMMAS, strict=True))
        ),
    )


def bounds_panel() -> DrawnPanel:
    """q and its two bounds, on a log axis."""
    far = np.linspace(0.5, 12, 231)
    return DrawnPanel(
        "bounds",
        "Lemma 2, Corollary 1: bounds beyond sqrt(2 gamma)",
        DISTANCE,
        "probability q",
        lines=tuple(
            Line(
                name,
                plain(far),
                plain(bound(far, gamma)),
                f"{name}, gamma {gamma:g}",
                gamma,
                place,
                STYLES[name],
            )
            for place, gamma in enumerate((GAMMAS[0], GAMMAS[-1]))
            for name, bound in BOUNDS.items()
        ),
        log_y=True,
        y_limits=(1e-6, 2),
        legend_size=8,
    )


def settings_panel(settings: Sequence[Printed]) -> DrawnPanel:
    """The distance at which half of the batches pass, in sigmas, for the paper's own settings."""
    halves = [half_accepted_at(each.params["gamma"]) for each in settings]
    return DrawnPanel(
        "table 13",
        "Table 13: where half of the batches pass",
        "distance / sigma; shaded: noise may hide a batch",
        dots=tuple(Dot(half, place, 0, 7, f"{half:.3g}") for place, half in enumerate(halves)),
        log_x=True,
        x_limits=(1, 6000),
        rows=tuple(f"{each.workload}, {number_of(each)}" for each in settings),
        shaded=(1, 3),
    )


def distance_panel(delta: float) -> DrawnPanel:
    """The normalised distance from which q is at most delta, against sigma (the paper's Figure 1)."""
    return DrawnPanel(
        f"figure 1, q <= {delta:g}",
        f"Figure 1: distance for q <= {delta:g}",
        "sigma",
        f"sqrt(d* / k), k = {DIMENSION:,}",
        lines=tuple(
            Line(
                "distance",
                SIGMAS,
                tuple(normalised_distance(sigma, gamma, delta) for sigma in SIGMAS),
                f"gamma {gamma:g}",
                gamma,
                place,
            )
            for place, gamma in enumerate(GAMMAS)
        ),
        x_limits=(0, None),
        y_limits=(0, None),
    )


def experiment_panel(trained: Iterable[Trained]) -> DrawnPanel:
    """Rejection rates against the share of flipped labels, as means over models (the paper's Figure 3).

    A pair of curves for every workload and setting: anomalous seeds, normal seeds.
    """
    found: dict[str, dict[float, list[Mapping[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for each in trained:
        share = each.params.get("anomalous_share")
        if share is not None:
            setting = ", ".join(f"{name} {each.params[name]:g}" for name in GIVEN)
            found[f"{each.workload}, {setting}"][share].append(each.stats)
    lines = []
    for place, (name, shares) in enumerate(sorted(found.items())):
        for kind in KINDS:
            rate, label = f"{kind}_rejection_rate", f"{name}: {kind}"
            measured = {
                share: [stats[rate] for stats in runs if rate in stats]
                for share, runs in sorted(shares.items())
            }
            means = {share: fmean(rates) for share, rates in measured.items() if rates}
            anomalous = kind == KINDS[0]
            lines.append(
                Line(
                    label,
                    tuple(means),
                    tuple(means.values()),
                    label,
                    colour=place if anomalous else None,
                    style="o-" if anomalous else "s:",
                )
            )
    return DrawnPanel(
        "figure 3",
        "Figure 3: rejected seeds, measured",
        "share of flipped labels in a batch",
        "rejection rate",
        lines=tuple(lines),
        x_limits=(-0.02, 1.02),
        y_limits=(-0.02, 1.3),  # the legend is above the curves
        y_ticks=(0, 0.2, 0.4, 0.6, 0.8, 1),
        legend_size=7,
        legend_place="upper left",
        without_lines="nothing measured yet; run:\nprivbench run papers/pd-sgd-anomalous",
    )


# -- tables ----------------------------------------------------------------------------------------


def distances_table() -> DrawnTable:
    """The distances from which a batch passes with probability at most delta."""
    rows = []
    for delta in DELTAS:
        for gamma in GAMMAS:
            x = rejected_from(gamma, delta)
            normalised = [f"{normalised_distance(sigma, gamma, delta):.6f}" for sigma in (0.1, 1.0)]
            rows.append((f"{delta:g}", f"{gamma:g}", f"{x:.4f}", f"{x**2:.4f}", *normalised))
    columns = ("delta", "gamma", "distance / sigma", "d* / sigma^2", "sqrt(d*/k), sigma 0.1", "sigma 1")
    title = "Distance from which a batch passes with probability at most delta (Figure 1)"
    return DrawnTable(title, columns, tuple(rows))


def probabilities_table() -> DrawnTable:
    """q and its bounds at some distances."""
    rows = []
    for gamma in GAMMAS:
        for x in (1.0, 2.0, 3.0, 5.0, 10.0):
            values = [float(bound(x, gamma)) for bound in BOUNDS.values()]
            shown = ["-" if math.isnan(value) else f"{value:.6g}" for value in values]
            rows.append((f"{gamma:g}", f"{x:g}", *shown))
    title = "Probability that a batch passes, and its bounds where they hold"
    return DrawnTable(title, ("gamma", "distance / sigma", *BOUNDS), tuple(rows))


def settings_table(settings: Iterable[Printed]) -> DrawnTable:
    """The paper's settings, each with the distance at which about half of the batches pass."""
    rows = []
    for each in settings:
        x, params = half_accepted_at(each.params["gamma"]), each.params
        given = [f"{params[name]:g}" for name in GIVEN]
        names = (str(each.workload), number_of(each))
        rows.append((*names, *given, f"{x:.4g}", f"{params['sigma'] * x:.4g}"))
    columns = ("workload", "setting", "sigma", "gamma", "T", "distance / sigma", "distance")
    title = "Settings of Table 13, and the distance at which about half of the batches pass"
    return DrawnTable(title, columns, tuple(rows))


def readable_settings(printed: Iterable[Printed]) -> list[Printed]:
    """The settings of the paper's Table 13, without the illegible ones."""
    return [each for each in printed if each.table == SETTINGS and set(GIVEN) <= each.params.keys()]


def number_of(setting: Printed) -> str:
    """The number of a setting in the table: the last word of its label."""
    return setting.label.rpartition(" ")[2]


def plain(values: Iterable[float]) -> tuple[float, ...]:
    """The values as Python floats, which reports can write."""
    return tuple(map(float, values))
