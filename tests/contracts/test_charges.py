"""What a bench counts: a method's steps without drawing batches, whatever parts it times."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

import methods
from harness.checks.method_contract import PROBLEM, make_records, quick_params
from harness.jobs.bench.interleaving import BenchRun, Lap, Player
from harness.jobs.bench.timing import Laps
from harness.jobs.clock import HostStopwatch
from harness.jobs.run import Run
from methods.base import Method
from tests.contracts.test_methods import every_method, own_cache
from tests.docs.conftest import FENCE, ROOT
from workloads.base import Records
from workloads.devices import CPU

__all__ = ["own_cache"]

TURNS = 30
TAKING, COMPUTING = 1.0, 100.0
"""Seconds that it takes, by the clock of these tests, to take records by their rows and to compute a loss."""
WITHOUT_DRAWS = ("dpagd",)
"""Every step of theirs reads all members."""


class Ticks:
    """A clock that only records and losses move, so that two trainings can be compared to the second."""

    now = 0.0

    def charge(self, seconds: float, work: Callable[..., Any]) -> Callable[..., Any]:
        def charged(*args: Any, **kwargs: Any) -> Any:
            self.now += seconds
            return work(*args, **kwargs)

        return charged


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    made = Ticks()
    monkeypatch.setattr(HostStopwatch, "mark", staticmethod(lambda: made.now))
    monkeypatch.setattr(BenchRun, "_process_time", lambda run: made.now)
    monkeypatch.setattr(Records, "take", made.charge(TAKING, Records.take))
    return made


def laps(method: Method, ticks: Ticks) -> list[Lap]:
    problem = replace(PROBLEM, loss=ticks.charge(COMPUTING, PROBLEM.loss))
    params = quick_params(method, 40)

    def train(run: Run) -> object:
        return method.train(make_records(40), problem, params, run)

    player = Player("method", train, CPU, threads=1, seed=0)
    try:
        found = [player.take_turn(number) for number in range(TURNS)]
    finally:
        player.leave()
    assert player.error is None
    return [lap for lap in found if lap]


@every_method
def test_a_method_that_names_no_parts_is_charged_the_same(
    name: str, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = methods.family.get(name)
    named = laps(method, ticks)
    monkeypatch.setattr(BenchRun, "clock", lambda run, name: nullcontext())
    unnamed = laps(method, ticks)
    assert {part for lap in unnamed for part in lap.clocks} <= {"drawing"}
    for clock in ("wall", "cpu"):
        assert Laps(named).net(clock).tolist() == Laps(unnamed).net(clock).tolist()
    assert [lap.drawing for lap in named] == [lap.drawing for lap in unnamed]
    drawn = [lap.drawing[0] for lap in named]
    if type(method).__module__.startswith("methods."):  # a plug-in may read all members, too
        assert (max(drawn) > 0) == (name not in WITHOUT_DRAWS)
    assert all(seconds < COMPUTING for seconds in drawn), "no loss is hidden in drawing"


def test_the_first_example_of_the_guide_is_charged_without_its_drawing(ticks: Ticks) -> None:
    text = (ROOT / "docs/add-a-method.md").read_text(encoding="utf-8")
    (source,) = (body for _, _, file, body in FENCE.findall(text) if file == "noisy_sgd.py")
    module: dict[str, Any] = {"__name__": "noisy_sgd"}
    exec(compile(source, "noisy_sgd.py", "exec"), module)
    found = laps(module["method"], ticks)
    assert {lap.wall for lap in found} == {TAKING + COMPUTING}
    assert set(Laps(found).net("wall").tolist()) == {COMPUTING}


def test_old_plug_ins_that_draw_by_themselves_are_charged_for_it(ticks: Ticks) -> None:
    """Like any named part: only what the run draws, or times as `run.drawing`, is not charged."""

    def train(way: str) -> Callable[[Run], object]:
        def steps(run: Run) -> None:
            rows: Tensor = make_records(40).y[:4]
            for _ in run.steps("train", TURNS, {}):
                with run.drawing() if way == "drawing" else run.clock("batch"):
                    make_records(40).take(rows)

        return steps

    for way, charged in (("drawing", 0.0), ("clock", TAKING)):
        player = Player(way, train(way), CPU, threads=1, seed=0)
        lap = player.take_turn(0)
        player.leave()
        assert lap is not None
        assert Laps([lap]).net("wall").tolist() == [charged]
