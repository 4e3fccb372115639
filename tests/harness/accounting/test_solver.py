"""Calibration meets its target from below, caches solutions, and reports infeasible targets."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from harness.accounting import CONCENTRATION, COUNT, calibrate, price
from methods.mechanisms.events import VonMisesFisherDpEvent
from workloads.disk_cache import default_folder
from workloads.errors import AccountingError

Family = Callable[[float], DpEvent]


def sgm(rate: float, steps: int) -> Family:
    return lambda noise: SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "target", "delta"),
    [
        (sgm(128 / 718, 100), 1.0, 1e-5),
        (sgm(128 / 718, 100), 8.0, 1e-5),
        (sgm(256 / 60000, 2000), 0.5, 1e-6),
        (sgm(1.0, 100), 0.01, 1e-5),
        (sgm(1.0, 100), 0.01, 1e-10),
        (sgm(1.0, 100), 4.0, 1e-5),
        (sgm(1.0, 100), 1000.0, 1e-5),
        (sgm(0.1, 100), 1000.0, 1e-5),
        (sgm(1e-3, 10), 8.0, 1e-5),
        (lambda noise: SelfComposedDpEvent(LaplaceDpEvent(noise), 10), 2.0, 1e-5),
        (lambda noise: PoissonSampledDpEvent(0.1, LaplaceDpEvent(noise)), 2.0, 1e-5),
    ],
)
def test_the_price_meets_the_target_from_below(
    family: Family, target: float, delta: float, tmp_path: Path
) -> None:
    noise = calibrate(family, target, delta, cache=tmp_path)
    epsilon = price(family(noise), delta).epsilon
    assert epsilon is not None
    assert target * (1 - 1e-3) <= epsilon <= target


@pytest.mark.parametrize(
    ("target", "noise"), [(1.0, 0.3562), pytest.param(0.1, 0.4502, marks=pytest.mark.slow)]
)
def test_a_cliff_in_the_price_does_not_hold_up_the_search(
    target: float, noise: float, tmp_path: Path
) -> None:
    """Few steps at a tiny rate: the price falls by a factor of 100 between noise 0.35 and 0.6, and the Rényi
    guess lies far to the right of the cliff. A secant from there once stayed at far too much noise."""
    family = sgm(1e-4, 10)
    found = calibrate(family, target, 1e-5, cache=tmp_path)
    assert found == pytest.approx(noise, rel=1e-3)
    epsilon = price(family(found), 1e-5).epsilon
    assert epsilon is not None
    assert target * (1 - 1e-3) <= epsilon <= target
    assert (price(family(found * 0.999), 1e-5).epsilon or 0) > target, "the smallest such noise"


def test_concentration_is_the_largest_that_keeps_the_target(tmp_path: Path) -> None:
    def family(kappa: float) -> DpEvent:
        return SelfComposedDpEvent(VonMisesFisherDpEvent(16000, kappa), 30)

    kappa = calibrate(family, 1.0, 1e-5, free=CONCENTRATION, cache=tmp_path)
    epsilon = price(family(kappa), 1e-5).epsilon
    assert epsilon is not None
    assert 1 - 1e-3 <= epsilon <= 1
    assert calibrate(family, 1.0, 1e-5, free=CONCENTRATION, cache=tmp_path) == kappa
    with pytest.raises(AccountingError) as caught:
        calibrate(family, math.inf, 1e-5, free=CONCENTRATION, cache=tmp_path)
    assert (caught.value.field, caught.value.value) == ("epsilon", math.inf)


@pytest.mark.parametrize(("noise", "target", "steps"), [(10.0, 2.0, 25), (1.0, 4.4, 1)])
def test_steps_are_the_most_that_keep_the_target(
    noise: float, target: float, steps: int, tmp_path: Path
) -> None:
    """Gaussians compose to one Gaussian, so the right number is known."""

    def family(count: float) -> DpEvent:
        return SelfComposedDpEvent(GaussianDpEvent(noise), int(count))

    found = calibrate(family, target, 1e-5, free=COUNT, cache=tmp_path)
    assert found == steps
    assert (price(family(found), 1e-5).epsilon or 0) <= target
    assert (price(family(found + 1), 1e-5).epsilon or 0) > target


def test_an_infeasible_number_of_steps_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AccountingError, match=COUNT.remedy) as caught:
        calibrate(
            lambda count: SelfComposedDpEvent(GaussianDpEvent(1.0), int(count)),
            1.0,
            1e-5,
            free=COUNT,
            cache=tmp_path,
        )
    assert (caught.value.value, caught.value.allowed) == (1.0, pytest.approx(4.377, abs=1e-3))


def test_infinite_epsilon_needs_no_noise(tmp_path: Path) -> None:
    assert calibrate(sgm(0.1, 10), math.inf, 1e-5, cache=tmp_path) == 0


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, 0.001, 1e4])
def test_a_target_out_of_range_is_refused(target: float, tmp_path: Path) -> None:
    with pytest.raises(AccountingError) as caught:
        calibrate(sgm(0.1, 10), target, 1e-5, cache=tmp_path)
    assert (caught.value.field, caught.value.allowed) == ("epsilon", (0.01, 1000))
    with pytest.raises(AccountingError) as caught:
        calibrate(sgm(0.1, 10), 1.0, 0.0, cache=tmp_path)
    assert (caught.value.field, caught.value.value) == ("delta", 0.0)


def test_an_infeasible_target_states_what_is_reachable(tmp_path: Path) -> None:
    """Another release with fixed noise already costs 4.38; no noise on the rest makes up for that."""
    with pytest.raises(AccountingError) as caught:
        calibrate(
            lambda noise: ComposedDpEvent([GaussianDpEvent(1.0), GaussianDpEvent(noise)]),
            1.0,
            1e-5,
            cache=tmp_path,
        )
    assert (caught.value.value, caught.value.allowed) == (1.0, pytest.approx(4.377, abs=1e-3))


def test_a_family_that_cannot_be_priced_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccountingError) as caught:
        calibrate(lambda noise: GaussianDpEvent(0.0), 1.0, 1e-5, cache=tmp_path)
    assert caught.value.field == "noise"


def test_where_any_noise_will_do_the_least_is_taken(tmp_path: Path) -> None:
    """No record is sampled with more than probability delta: even very little noise is enough."""
    noise = calibrate(sgm(1e-9, 1), 1.0, 1e-5, cache=tmp_path)
    assert (price(sgm(1e-9, 1)(noise), 1e-5).epsilon or 0) <= 1.0


class Counted:
    """A family that counts its calls."""

    def __init__(self, steps: int = 20) -> None:
        self.asked, self.family = 0, sgm(1.0, steps)

    def __call__(self, noise: float) -> DpEvent:
        self.asked += 1
        return self.family(noise)


def test_a_solution_is_cached_on_disk(tmp_path: Path) -> None:
    cold, warm = Counted(), Counted()
    first = calibrate(cold, 2.0, 1e-5, cache=tmp_path)
    assert calibrate(warm, 2.0, 1e-5, cache=tmp_path) == first
    assert warm.asked == 2 < cold.asked, "two events identify the family; none is priced again"


@pytest.mark.parametrize("other", [(20, 2.5, 1e-5), (20, 2.0, 1e-6), (21, 2.0, 1e-5)])
def test_another_problem_is_another_solution(other: tuple[int, float, float], tmp_path: Path) -> None:
    calibrate(Counted(), 2.0, 1e-5, cache=tmp_path)
    steps, target, delta = other
    again = Counted(steps)
    calibrate(again, target, delta, cache=tmp_path)
    assert again.asked > 2
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"answer": 1}', "null", "\x00\x00"])
def test_a_damaged_entry_is_recomputed(damage: str, tmp_path: Path) -> None:
    first = calibrate(Counted(), 2.0, 1e-5, cache=tmp_path)
    (entry,) = tmp_path.iterdir()
    entry.write_text(damage)
    assert calibrate(Counted(), 2.0, 1e-5, cache=tmp_path) == first
    assert calibrate(warm := Counted(), 2.0, 1e-5, cache=tmp_path) == first
    assert warm.asked == 2, "the entry was mended"


def test_an_altered_solution_is_not_used(tmp_path: Path) -> None:
    first = calibrate(Counted(), 2.0, 1e-5, cache=tmp_path)
    (entry,) = tmp_path.iterdir()
    content = json.loads(entry.read_text())
    entry.write_text(json.dumps(content | {"answer": first / 2}))
    assert calibrate(Counted(), 2.0, 1e-5, cache=tmp_path) == first


def test_an_unwritable_cache_only_costs_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "file"
    file.touch()
    assert calibrate(Counted(), 2.0, 1e-5, cache=file) > 0
    assert "cannot be cached" in caplog.text


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder("calibration") == tmp_path / "privbench" / "calibration"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder("calibration") == Path.home() / ".cache" / "privbench" / "calibration"
