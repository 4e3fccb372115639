"""Calibration meets its target from below, remembers, and says what it cannot do."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from harness.accounting import calibrate, price
from harness.accounting.cache import default_folder
from workloads.errors import AccountingError

Family = Callable[[float], DpEvent]


def sgm(rate: float, steps: int) -> Family:
    return lambda noise: SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)


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
    ],
)
def test_the_price_meets_the_target_from_below(
    family: Family, target: float, delta: float, tmp_path: Path
) -> None:
    noise = calibrate(family, target, delta, cache=tmp_path)
    epsilon = price(family(noise), delta).epsilon
    assert epsilon is not None
    assert target * (1 - 1e-3) <= epsilon <= target


def test_infinite_epsilon_needs_no_noise(tmp_path: Path) -> None:
    assert calibrate(sgm(0.1, 10), math.inf, 1e-5, cache=tmp_path) == 0


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, 0.001, 1e4])
def test_a_target_out_of_range_is_refused(target: float, tmp_path: Path) -> None:
    with pytest.raises(AccountingError, match=r"from 0.01 to 1000"):
        calibrate(sgm(0.1, 10), target, 1e-5, cache=tmp_path)
    with pytest.raises(AccountingError, match="delta must be"):
        calibrate(sgm(0.1, 10), 1.0, 0.0, cache=tmp_path)


def test_an_unreachable_target_says_what_is_reachable(tmp_path: Path) -> None:
    """Another release with fixed noise already costs 4.38; no noise on the rest mends that."""
    with pytest.raises(AccountingError, match=r"cannot be reached: with noise 1e\+06 it is still 4\.37"):
        calibrate(
            lambda noise: ComposedDpEvent([GaussianDpEvent(1.0), GaussianDpEvent(noise)]),
            1.0,
            1e-5,
            cache=tmp_path,
        )


def test_a_family_that_cannot_be_priced_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccountingError, match="no guarantee"):
        calibrate(lambda noise: GaussianDpEvent(0.0), 1.0, 1e-5, cache=tmp_path)


def test_where_any_noise_will_do_the_least_is_taken(tmp_path: Path) -> None:
    """Nobody is ever sampled with more than probability delta: even hardly any noise is enough."""
    noise = calibrate(sgm(1e-9, 1), 1.0, 1e-5, cache=tmp_path)
    assert (price(sgm(1e-9, 1)(noise), 1e-5).epsilon or 0) <= 1.0


class Counted:
    """A family that counts how often it is asked."""

    def __init__(self, steps: int = 20) -> None:
        self.asked, self.family = 0, sgm(1.0, steps)

    def __call__(self, noise: float) -> DpEvent:
        self.asked += 1
        return self.family(noise)


def test_an_answer_is_remembered_on_disk(tmp_path: Path) -> None:
    cold, warm = Counted(), Counted()
    first = calibrate(cold, 2.0, 1e-5, cache=tmp_path)
    assert calibrate(warm, 2.0, 1e-5, cache=tmp_path) == first
    assert warm.asked == 2 < cold.asked, "two events name the family; none is priced again"


@pytest.mark.parametrize("other", [(20, 2.5, 1e-5), (20, 2.0, 1e-6), (21, 2.0, 1e-5)])
def test_another_question_is_another_answer(other: tuple[int, float, float], tmp_path: Path) -> None:
    calibrate(Counted(), 2.0, 1e-5, cache=tmp_path)
    steps, target, delta = other
    again = Counted(steps)
    calibrate(again, target, delta, cache=tmp_path)
    assert again.asked > 2
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"answer": 1}', "null", "\x00\x00"])
def test_a_damaged_entry_is_computed_again(damage: str, tmp_path: Path) -> None:
    first = calibrate(Counted(), 2.0, 1e-5, cache=tmp_path)
    (entry,) = tmp_path.iterdir()
    entry.write_text(damage)
    assert calibrate(Counted(), 2.0, 1e-5, cache=tmp_path) == first
    assert calibrate(warm := Counted(), 2.0, 1e-5, cache=tmp_path) == first
    assert warm.asked == 2, "the entry was mended"


def test_an_altered_answer_is_not_believed(tmp_path: Path) -> None:
    first = calibrate(Counted(), 2.0, 1e-5, cache=tmp_path)
    (entry,) = tmp_path.iterdir()
    content = json.loads(entry.read_text())
    entry.write_text(json.dumps(content | {"answer": first / 2}))
    assert calibrate(Counted(), 2.0, 1e-5, cache=tmp_path) == first


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert calibrate(Counted(), 2.0, 1e-5, cache=file) > 0
    assert "not cached" in caplog.text


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "privbench" / "calibration"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "privbench" / "calibration"
