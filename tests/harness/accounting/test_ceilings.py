"""Ceilings under masks of fixed size: the facts of their specification, and attacks that reach them."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from scipy.stats import norm

from harness.accounting import Guarantee, find_ceilings, price, tpr_ceiling, tradeoff
from harness.accounting.ceilings import (
    BINDING,
    Ceilings,
    bound_attacks,
    bound_by_epsilon,
    ceilings_of_guarantee,
    curve_of_epsilon,
    curve_of_gaussian,
)
from harness.accounting.tradeoff import find_tradeoff
from methods.mechanisms.events import ClaimedDpEvent, NoisyVotesDpEvent, VonMisesFisherDpEvent

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
FPRS = np.concatenate([np.logspace(-6, 0, 200), np.linspace(0, 1, 200)])


def quickstart(noise: float) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(0.3565, GaussianDpEvent(noise)), 100)


def found(event: DpEvent, tmp_path: Path, delta: float = 1e-5) -> Ceilings:
    answer = find_ceilings(event, price(event, delta), tmp_path)
    assert answer is not None
    return answer


def test_a_gaussian_has_twice_its_mu(tmp_path: Path) -> None:
    """leakage_statistics, facts 6."""
    mu = 0.268051
    curve = curve_of_gaussian(mu)
    assert float(curve(0.01)) == pytest.approx(0.0197808220, abs=1e-9)
    assert float(curve(curve(0.01))) == pytest.approx(0.0367071967, abs=1e-9)
    answer = found(GaussianDpEvent(3.730632), tmp_path)
    assert answer.by == "pld twice"
    assert answer.tpr["0.01"] == pytest.approx(float(norm.cdf(norm.ppf(0.01) + 2 * mu)), abs=1e-7)
    assert answer.auc == pytest.approx(float(norm.cdf(2 * mu / math.sqrt(2))), abs=1e-4)
    assert answer.gap == pytest.approx(2 * float(norm.cdf(mu)) - 1, abs=1e-6)


def test_the_lines_of_an_epsilon_twice() -> None:
    """leakage_statistics, facts 6."""
    curve = curve_of_epsilon(1.0, 1e-5)
    assert float(curve(0.01)) == pytest.approx(0.0271928183, abs=1e-9)
    assert float(curve(curve(0.01))) == pytest.approx(0.0739277438, abs=1e-9)
    promise = Guarantee("approximate-dp", 1.0, 1e-5, "add-or-remove-one", "rdp")
    twice = ceilings_of_guarantee(promise.asdict())
    assert twice is not None and twice["by"] == "epsilon-delta twice"
    assert twice["tpr"]["0.01"] == pytest.approx(0.0739277438, abs=1e-9)
    once = ceilings_of_guarantee({**promise.asdict(), "adjacency": "replace-one"})
    assert once is not None and once["by"] == "replace-one"
    assert once["tpr"]["0.01"] == pytest.approx(0.0271928183, abs=1e-9)
    # The corner of the two lines: (e^eps - 1 + 2 delta) / (e^eps + 1).
    assert once["gap"] == pytest.approx((math.e - 1 + 2e-5) / (math.e + 1), abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "coin", "ceiling", "area"),
    [(13.432, 0.0197, 0.0363, 0.646), (4.002, 0.0779, 0.292, 0.896), (2.302, 0.232, 0.777, 0.986)],
)
def test_the_quickstart(noise: float, coin: float, ceiling: float, area: float, tmp_path: Path) -> None:
    """leakage_statistics, section 6: epsilon 1, 4 and 8 at 100 steps and rate 0.3565, three digits."""
    answer = found(quickstart(noise), tmp_path)
    assert answer.by == "pld twice"
    assert answer.tpr["0.01"] == pytest.approx(ceiling, rel=2e-3)
    assert answer.auc == pytest.approx(area, abs=5e-4)
    assert tpr_ceiling(quickstart(noise), 0.01).tpr == pytest.approx(coin, rel=2e-3), "a canary's coin"


def test_each_direction_has_its_own_curve() -> None:
    """One release of a sampled Gaussian, where the best tests are known: thresholds on the release."""
    rate, noise = 0.3, 1.0
    curves = find_tradeoff(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), ADD_OR_REMOVE)
    cuts = np.linspace(-3, 4, 50)
    out = norm.sf(cuts, 0, noise)
    present = (1 - rate) * out + rate * norm.sf(cuts, 1, noise)
    assert curves.add(out) == pytest.approx(present, abs=2e-4)
    assert (curves.add(out) >= present - 1e-9).all()
    # With the record in as the null hypothesis, low values are evidence of its absence.
    assert curves.remove(1 - present) == pytest.approx(1 - out, abs=2e-4)
    assert (curves.remove(1 - present) >= 1 - out - 1e-9).all()
    assert np.abs(curves.add(FPRS) - curves.remove(FPRS)).max() > 0.01


def test_a_ceiling_is_concave_so_means_stay_below(tmp_path: Path) -> None:
    answer = found(quickstart(2.302), tmp_path)
    fpr, tpr = np.array(answer.curve["fpr"]), np.array(answer.curve["tpr"])
    slopes = np.diff(tpr) / np.diff(fpr)
    assert all(later <= earlier * (1 + 1e-4) + 1e-6 for earlier, later in pairwise(slopes))
    assert (np.diff(tpr) >= 0).all() and tpr[-1] == 1
    assert answer.gap >= float((tpr - fpr).max()) - 1e-6


@pytest.mark.slow
def test_two_opposite_gradients_come_near_the_ceiling(tmp_path: Path) -> None:
    """A counterexample to one add-or-remove curve: a record is swapped for its opposite, and its mask has a
    fixed size. The best attack on that pair passes what a coin allows and stays below the ceiling."""
    rate, noise = 0.3565, 4.0
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    cuts = np.linspace(-20, 20, 2001)
    rest = (1 - rate) * norm.sf(cuts, 0, noise)
    with_it, with_other = (rest + rate * norm.sf(cuts, place, noise) for place in (1, -1))
    curves = find_tradeoff(event, ADD_OR_REMOVE)
    ceiling = curves.add(curves.remove(with_other))
    assert (with_it <= ceiling + 1e-9).all()
    assert (with_it > curves.both(with_other) + 0.01).any()


@pytest.mark.slow
def test_a_price_under_replace_one_counts_once(tmp_path: Path) -> None:
    event = SelfComposedDpEvent(SampledWithoutReplacementDpEvent(1000, 100, GaussianDpEvent(2.0)), 20)
    answer = found(event, tmp_path)
    assert answer.by == "replace-one"
    assert answer.tpr["0.01"] == pytest.approx(tpr_ceiling(event, 0.01).tpr, rel=1e-9)
    rows = SelfComposedDpEvent(VonMisesFisherDpEvent(1000, 5.0), 3)
    assert found(rows, tmp_path).by == "replace-one"


def test_without_a_curve_the_price_decides(tmp_path: Path) -> None:
    event = ZCDpEvent(0.01)
    promise = price(event, 1e-5)
    assert find_ceilings(event, promise, tmp_path) == bound_by_epsilon(
        promise.epsilon or 0, 1e-5, "add-or-remove-one"
    )
    assert not list(tmp_path.iterdir())


def test_no_guarantee_has_no_ceiling(tmp_path: Path) -> None:
    for event in (NonPrivateDpEvent(), ClaimedDpEvent(GaussianDpEvent(1.0), ("the batch size",))):
        promise = price(event, 1e-5)
        assert promise.kind not in BINDING
        assert find_ceilings(event, promise, tmp_path) is None
        assert ceilings_of_guarantee(promise.asdict()) is None


@pytest.mark.slow
def test_the_next_model_finds_them_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = quickstart(4.002)
    first = found(event, tmp_path)

    def refuse(*_: object) -> None:
        raise RuntimeError("computed again")

    monkeypatch.setattr(tradeoff, "find_tradeoff", refuse)
    assert found(event, tmp_path) == found(event, tmp_path, delta=1e-6) == first
    with pytest.raises(RuntimeError, match="computed again"):
        found(quickstart(4.003), tmp_path)


def test_a_cache_never_holds_votes(tmp_path: Path) -> None:
    votes = NoisyVotesDpEvent(((171, 29), (150, 50)), "gaussian", 40.0)
    others = NoisyVotesDpEvent(((171, 29), (149, 51)), "gaussian", 40.0)
    assert found(votes, tmp_path) == found(others, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1, "the votes are no part of the question"


def test_of_an_older_result_only_the_price_is_known(tmp_path: Path) -> None:
    event = quickstart(4.002)
    answer = found(event, tmp_path)
    assert json.loads(json.dumps(answer.asdict(), allow_nan=False)) == answer.asdict()
    lines = ceilings_of_guarantee(json.loads(json.dumps(price(event, 1e-5).asdict())))
    assert lines is not None and lines["by"] == "epsilon-delta twice"
    assert lines["tpr"]["0.01"] > answer.tpr["0.01"], "looser, and never below"


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 5.0, 80.0, 900.0])
def test_ceilings_stay_between_chance_and_certainty(epsilon: float) -> None:
    answer = bound_attacks(curve_of_epsilon(epsilon, 1e-5), curve_of_epsilon(epsilon, 1e-5), "")
    assert 0.5 <= answer.auc <= 1 and 0 <= answer.gap <= 1
    assert all(float(fpr) <= tpr <= 1 for fpr, tpr in answer.tpr.items())
