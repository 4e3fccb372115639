"""What is drawn of PD-SGD's privacy test: the paper's theory, and what a store holds of its experiment."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from harness.report.pd_sgd.theory import corollary_1, lemma_2, normalised_distance, plausibility
from harness.report.reading import REJECTIONS, Row, rows_of
from harness.results.published_tables import published
from harness.results.query import Source

GAMMAS = (1.0, 2.0, 4.0, 10.0)
DELTAS = (0.05, 1e-5)
SIGMAS = tuple(round(0.1 * step, 1) for step in range(1, 11))
BOUNDS = {"q": plausibility, "Lemma 2": lemma_2, "Corollary 1": corollary_1}
KINDS = ("anomalous", "normal")
"""Of seed batches."""
SETTINGS = "pd-sgd-table-13"


@dataclass(frozen=True)
class Curve:
    """A line of the figure, and rows of its data file."""

    panel: str
    name: str
    gamma: float | None
    x: tuple[float, ...]
    y: tuple[float, ...]


def theory() -> list[Curve]:
    """The curves that need no data."""
    near, far = np.linspace(0, 9, 181), np.linspace(0.5, 12, 231)
    curves = [Curve("plausibility", "q", g, plain(near), plain(plausibility(near, g))) for g in GAMMAS]
    for gamma in (GAMMAS[0], GAMMAS[-1]):
        for name, bound in BOUNDS.items():
            curves.append(Curve("bounds", name, gamma, plain(far), plain(bound(far, gamma))))
    for delta in DELTAS:
        for gamma in GAMMAS:
            distances = tuple(normalised_distance(sigma, gamma, delta) for sigma in SIGMAS)
            curves.append(Curve(figure_1(delta), "distance", gamma, SIGMAS, distances))
    return curves


def figure_1(delta: float) -> str:
    """The panel of Figure 1 for this probability."""
    return f"figure 1, q <= {delta:g}"


def experiment(store: Source) -> list[Curve]:
    """The curves of `rejection_curves` from a store's database."""
    return rejection_curves(rows_of(store, REJECTIONS))


def rejection_curves(rows: Iterable[Row]) -> list[Curve]:
    """Rejection rates against the share of flipped labels, as means over models (the paper's Figure 3).

    A pair of curves for every workload and setting in the database: anomalous seeds, normal seeds.
    """
    found: dict[str, dict[float, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        params, share = row["params"], row["params"].get("anomalous_share")
        if share is not None:
            told = ", ".join(f"{name} {params[name]:g}" for name in ("sigma", "gamma", "T"))
            found[f"{row['workload']}, {told}"][share].append(row["stats"])
    curves = []
    for name, shares in sorted(found.items()):
        for kind in KINDS:
            rate = f"{kind}_rejection_rate"
            measured = {
                share: [stats[rate] for stats in runs if rate in stats]
                for share, runs in sorted(shares.items())
            }
            means = {share: fmean(rates) for share, rates in measured.items() if rates}
            curves.append(Curve("figure 3", f"{name}: {kind}", None, tuple(means), tuple(means.values())))
    return curves


def settings() -> list[dict[str, Any]]:
    """The settings of the paper's Table 13, but those that cannot be read."""
    rows = []
    for each in published():
        params = each.cell.params
        if each.table.name == SETTINGS and {"sigma", "gamma", "T"} <= params.keys():
            number = each.cell.label.rpartition(" ")[2]
            rows.append({"workload": each.cell.workload, "setting": number, **params})
    return rows


def plain(values: Iterable[float]) -> tuple[float, ...]:
    """Python's own numbers."""
    return tuple(map(float, values))
