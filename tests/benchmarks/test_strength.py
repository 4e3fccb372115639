"""How strong the membership attacks are on the signals of real models, beside the published attacks.

    PRIVBENCH_STRENGTH=folder pytest -m benchmark -s tests/benchmarks/test_strength.py

The signals of 64 models a cell are kept in that folder (else they are trained anew every time, in about ten
minutes); Location-30 takes part where PRIVBENCH_DATA is set. The published attacks are written here from
their papers, slowly and obviously, so that a mistake of ours is not made twice. Figures are means over
disjoint groups of M models.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from harness.attacks import family
from harness.attacks.base import Attack, Evidence
from harness.jobs.attack import read_signals, read_trainings
from harness.jobs.judge import score
from harness.leakage.comparison import ROUNDING, figure, paired_leakage
from harness.leakage.influence import Scored
from harness.leakage.matrices import Floats, Ints
from harness.leakage.roc import RATES
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Json
from harness.store import Store
from tests.campaigns.calibration.cells import Signals

pytestmark = pytest.mark.benchmark

MODELS = 64
SIZES = (4, 8, 16, 32)
GROUPS = 8
"""Disjoint groups of models that a figure is the mean over, at most."""
LEVEL = 0.01
"""The chance that equal attacks fail the benchmark, shared by all comparisons (Bonferroni)."""

CELLS: dict[str, tuple[str, Json]] = {
    "digits-linear sgd": ("digits-linear", {"method": "sgd"}),
    "digits-linear dp-sgd 4": ("digits-linear", {"method": "dp-sgd", "epsilon": 4}),
    "digits-mlp sgd": ("digits-mlp", {"method": "sgd"}),
    "digits-mlp dp-sgd 8": ("digits-mlp", {"method": "dp-sgd", "epsilon": 8}),
    "location30-mlp sgd": ("location30-mlp", {"method": "sgd"}),
    "location30-mlp dp-sgd 8": ("location30-mlp", {"method": "dp-sgd", "epsilon": 8}),
}

OURS: dict[str, tuple[str, Json]] = {
    "lira bayes": ("lira", {}),
    "rmia": ("rmia", {}),
    "lira online": ("lira", {"mode": "online"}),
    "lira offline": ("lira", {"mode": "offline"}),
    "rmia offline": ("rmia", {"mode": "offline"}),
    "reference": ("reference", {}),
    "shadow": ("shadow", {}),
    "loss": ("loss", {}),
    "population": ("population", {}),
}
"""Those that read stored signals alone and teach no network."""


def log_probability(logits: np.ndarray, labels: Ints, temperature: float) -> Floats:
    """(M, n): log of the softmax probability of the label."""
    scaled = logits.astype(np.float64) / temperature
    whole = np.logaddexp.reduce(scaled, axis=2)
    picked: Floats = scaled[:, np.arange(len(labels)), labels] - whole
    return picked


def published_lira(evidence: Evidence, online: bool, medians: bool) -> Floats:
    """Carlini et al. 2022, algorithm 1 with the variance of all records together.

    The paper says means; `medians` and one standard deviation of all logits, IN and OUT apart, is what the
    authors' experiments are known to use with few shadows.
    """
    phi, members = evidence.phi, evidence.members
    scores = np.zeros(phi.shape)
    for target in range(len(phi)):
        others = np.arange(len(phi)) != target
        centre: list[Floats] = []
        spread: list[float] = []
        for inside in (True, False):
            seen = np.where(members[others] == inside, phi[others], np.nan)
            some = ~np.isnan(seen).all(axis=0)
            middle = np.full(phi.shape[1], np.nan)
            middle[some] = (np.nanmedian if medians else np.nanmean)(seen[:, some], axis=0)
            centre.append(middle)
            spread.append(float(np.nanstd(seen if medians else seen - middle)))
        (inner, outer), (wide, narrow) = centre, spread
        if online:
            ratio = stats.norm.logpdf(phi[target], inner, wide) - stats.norm.logpdf(
                phi[target], outer, narrow
            )
        else:
            ratio = (phi[target] - outer) / narrow
        scores[target] = np.nan_to_num(ratio, nan=0.0)
    return scores


def published_rmia(
    evidence: Evidence, gamma: float, temperature: float, offline_a: float | None = None
) -> Floats:
    """Zarifzadeh et al. 2024: the share of z with (p(x|t) / p(x)) / (p(z|t) / p(z)) >= gamma, pair by pair.

    p is the mean over all reference models; offline, ((1 + a) P_out + 1 - a) / 2.
    """
    p_x = np.exp(log_probability(evidence.logits, evidence.labels, temperature))
    p_z = np.exp(log_probability(evidence.population_logits, evidence.population_labels, temperature))
    scores = np.zeros(p_x.shape)
    for target in range(len(p_x)):
        others = np.arange(len(p_x)) != target
        usual_x, usual_z = p_x[others].mean(axis=0), p_z[others].mean(axis=0)
        if offline_a is not None:
            outside = ~evidence.members[others]
            out = (p_x[others] * outside).sum(axis=0) / np.maximum(outside.sum(axis=0), 1)
            out = np.where(outside.any(axis=0), out, usual_x)
            usual_x, usual_z = (((1 + offline_a) * each + 1 - offline_a) / 2 for each in (out, usual_z))
        ratio_x, ratio_z = p_x[target] / usual_x, p_z[target] / usual_z
        scores[target] = (ratio_x[:, None] >= gamma * ratio_z[None, :]).mean(axis=1)
    return scores


PUBLISHED: dict[str, Callable[[Evidence], Floats]] = {
    "LiRA online, means": partial(published_lira, online=True, medians=False),
    "LiRA online, medians": partial(published_lira, online=True, medians=True),
    "LiRA offline": partial(published_lira, online=False, medians=False),
    "RMIA online, gamma 1": partial(published_rmia, gamma=1, temperature=1),
    "RMIA online, gamma 2": partial(published_rmia, gamma=2, temperature=1),
    "RMIA online, gamma 1, T 2": partial(published_rmia, gamma=1, temperature=2),
    "RMIA online, gamma 2, T 2": partial(published_rmia, gamma=2, temperature=2),
    "RMIA offline, a 0.33": partial(published_rmia, gamma=1, temperature=1, offline_a=0.33),
}
AXES = ("auc", "0.01", "0.001")


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Signals]]:
    """Every cell's, from the folder of PRIVBENCH_STRENGTH or trained into it."""
    kept = os.environ.get("PRIVBENCH_STRENGTH")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("strength")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in CELLS if name.startswith("digits") or "PRIVBENCH_DATA" in os.environ]
    missing = [name for name in wanted if not file_of(folder, name).exists()]
    if missing:
        train(folder, missing)
    yield {name: Signals.load(file_of(folder, name)) for name in wanted}


def file_of(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '-')}.npz"


def train(folder: Path, names: list[str]) -> None:
    """Train the models of these cells by the program, and keep their signals."""
    store = folder / "store"
    for name in names:
        workload, rest = CELLS[name]
        grid = {"workload": workload, **rest}
        asked = [word for key, value in grid.items() for word in (f"--{key}", str(value))]
        asked += ["--models", str(MODELS), "--attack", "loss", "--store", str(store)]
        done = subprocess.run([sys.executable, "-m", "harness.cli", "run", *asked], check=False)
        assert done.returncode == 0, f"training {name} failed"
        opened = Store.open(store)
        sweep = {"name": "strength", "models": MODELS, "attacks": ["loss"], "grid": [grid]}
        (cell,) = make_plan(*read_sweep(sweep, name), opened).cells
        read = read_signals(read_trainings(cell, MODELS, opened), opened)
        labels, test_labels = read["labels"][0], read["test_labels"][0]
        found = Signals(read["logits"], labels, read["members"], read["test_logits"], test_labels)
        found.save(file_of(folder, name))


Strength = dict[str, list[Scored]]
"""By attack, of one group of models after the other."""


def attacked(signals: Signals, size: int) -> Strength:
    """Every attack on disjoint groups of so many models."""
    starts = range(0, min(MODELS, GROUPS * size), size)
    cells = [signals.cell(slice(start, start + size)) for start in starts]
    found: Strength = {}
    for name, (attack, params) in OURS.items():
        member = family.get(attack)
        assert isinstance(member, Attack)
        found[name] = [Scored(score(member, each, member.Params(**params)), each.members) for each in cells]
    for name, run in PUBLISHED.items():
        found[name] = [Scored(run(each), each.members) for each in cells]
    return found


@pytest.fixture(scope="module")
def strengths(signals: dict[str, Signals]) -> dict[tuple[str, int], Strength]:
    return {(name, size): attacked(each, size) for name, each in signals.items() for size in SIZES}


@dataclass(frozen=True)
class Shortfall:
    """An attack of ours against a published one, by a figure: the difference, and the chance of less."""

    cell: str
    size: int
    ours: str
    published: str
    axis: str
    difference: float
    p: float


def against_published(
    strengths: dict[tuple[str, int], Strength], defaults: dict[str, str]
) -> Iterator[Shortfall]:
    """Ours against each published attack of its kind, paired; `defaults` says which of ours stands for it."""
    for (cell, size), found in strengths.items():
        for published, kind in ((name, name.split()[0]) for name in PUBLISHED):
            ours = defaults[kind]
            for axis in AXES:
                if axis != "auc" and found[ours][0].roc.shortage(RATES[axis]) is not None:
                    continue
                pairs = zip(found[ours], found[published], strict=True)
                groups = [paired_leakage(axis, one, other, "record") for one, other in pairs]
                difference = np.mean([each.difference for each in groups if each.difference is not None])
                error = np.sqrt(sum(each.se**2 for each in groups if each.se is not None)) / len(groups)
                freedom = len(groups) * (size - 1)
                p = stats.t.cdf(difference / error, freedom) if error > ROUNDING else 1.0  # the same scores
                yield Shortfall(cell, size, ours, published, axis, float(difference), float(p))


def significant(compared: list[Shortfall]) -> list[Shortfall]:
    """Those where ours is weaker by more than noise."""
    return [each for each in compared if each.p < LEVEL / len(compared)]


def test_no_default_is_weaker_than_the_published_attacks(
    strengths: dict[tuple[str, int], Strength],
) -> None:
    for (cell, size), found in strengths.items():
        print(f"\n{cell}, {size} models: AUC / TPR@1 % / TPR@0.1 %, {len(found['loss'])} groups")  # noqa: T201
        for name, groups in found.items():
            auc, one, tenth = (np.mean([figure(axis)(each).value for each in groups]) for axis in AXES)
            print(f"  {name:28} {auc:.4f} / {100 * one:5.2f} / {100 * tenth:5.2f}")  # noqa: T201
    compared = list(against_published(strengths, {"LiRA": "lira bayes", "RMIA": "rmia"}))
    for each in sorted(compared, key=lambda each: each.p)[:10]:
        print(each)  # noqa: T201
    assert not significant(compared)


def test_a_weak_default_would_be_noticed(strengths: dict[tuple[str, int], Strength]) -> None:
    compared = list(against_published(strengths, {"LiRA": "lira online", "RMIA": "loss"}))
    weaker = {(each.ours, each.published) for each in significant(compared)}
    assert ("lira online", "LiRA offline") in weaker
    assert ("loss", "RMIA online, gamma 1, T 2") in weaker
