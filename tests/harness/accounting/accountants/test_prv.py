"""The PRV accountant, against Opacus's and against a closed form."""

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from opacus.accountants import PRVAccountant

from harness.accounting.accountants.prv import KINDS, epsilon_prv, loss_mean, sampled_gaussians
from harness.accounting.accountants.rdp import epsilon_rdp


def sgm(rate: float, noise: float, steps: int) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)


@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [(256 / 60000, 1.1, 2000), (0.01, 1.0, 1000), (0.99, 2.0, 1), (0.5, 20.0, 10), (1e-4, 0.6, 10)],
)
@pytest.mark.filterwarnings("ignore:Optimal order is the")  # Opacus's remark on its own window
def test_it_agrees_with_opacus(rate: float, noise: float, steps: int) -> None:
    theirs = PRVAccountant()
    theirs.history = [(noise, rate, steps)]
    rough = epsilon_rdp(sgm(rate, noise, steps), 1e-9, NeighboringRelation.ADD_OR_REMOVE_ONE)
    ours = epsilon_prv({(rate, noise): steps}, 1e-5, rough)
    assert ours is not None
    assert ours.upper == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)
    assert ours.lower <= ours.middle <= ours.upper


@pytest.mark.filterwarnings("ignore:Optimal order is the")
def test_it_agrees_with_opacus_on_different_gaussians() -> None:
    event = ComposedDpEvent([sgm(0.05, 2.0, 200), sgm(0.01, 1.2, 300), sgm(0.99, 20.0, 1)])
    theirs = PRVAccountant()
    theirs.history = [(2.0, 0.05, 200), (1.2, 0.01, 300), (20.0, 0.99, 1)]
    rough = epsilon_rdp(event, 1e-9, NeighboringRelation.ADD_OR_REMOVE_ONE)
    gaussians = sampled_gaussians(event)
    assert gaussians == {(0.05, 2.0): 200, (0.01, 1.2): 300, (0.99, 20.0): 1}
    ours = epsilon_prv(gaussians, 1e-5, rough)
    assert ours is not None
    assert ours.upper == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-3)


@pytest.mark.parametrize(("noise", "epsilon"), [(1, 4.377178), (2, 1.993091), (4, 0.926342), (8, 0.434416)])
def test_one_gaussian_is_known(noise: float, epsilon: float) -> None:
    """analytic_gaussian_eps_1e-5 of the specification."""
    found = epsilon_prv({(1.0, noise): 1}, 1e-5, 2 * epsilon + 2)
    assert found is not None
    assert found.lower < epsilon < found.upper
    assert found.middle == pytest.approx(epsilon, abs=2e-4)


def test_the_mean_loss_of_a_gaussian() -> None:
    assert loss_mean(1.0, 2.0) == 0.125
    assert loss_mean(1 - 1e-12, 2.0) == pytest.approx(0.125, rel=1e-6)


def test_events_without_a_prv_price() -> None:
    assert epsilon_prv({(0.1, 1.0): 10}, 1e-11, 5.0) is None, "the transform would round"
    assert epsilon_prv({(0.1, 1.0): 10**9}, 1e-5, 5.0) is None, "the mesh would be too large"
    many = {(0.1, 1.0 + place): 1 for place in range(KINDS + 1)}
    assert epsilon_prv(many, 1e-5, 5.0) is None, "they would take too long"
    assert sampled_gaussians(ComposedDpEvent([GaussianDpEvent(1.0), LaplaceDpEvent(1.0)])) is None
    assert sampled_gaussians(SelfComposedDpEvent(sgm(0.1, 2.0, 3), 4)) == {(0.1, 2.0): 12}
    assert epsilon_prv(sampled_gaussians(sgm(0.0, 2.0, 3)) or {}, 1e-5, 5.0) is None, "no record is sampled"
