import pytest

from harness.backends.base import Job
from harness.backends.schedule import critical_path, makespan, simulate


def cells(count: int, models: int, train: float, attack: float) -> list[Job]:
    """Cells of some trainings and one attack that needs them all."""
    found = []
    for cell in range(count):
        keys = tuple(f"{cell}/{model}" for model in range(models))
        found += [Job((key,), (), train) for key in keys]
        found.append(Job((f"{cell}/attack",), keys, attack))
    return found


def test_long_tasks_on_one_slot_take_their_sum_and_leave_nothing_idle() -> None:
    schedule = simulate(cells(1, 3, 1000.0, 1000.0), 1, start_seconds=5.0)
    assert schedule.jobs == 4
    assert schedule.work_seconds == 4000.0
    assert schedule.makespan_seconds == 4020.0
    assert schedule.idle_share == pytest.approx(0.0)


def test_more_slots_than_tasks_come_down_to_the_critical_path() -> None:
    jobs = cells(2, 3, 1000.0, 700.0)
    schedule = simulate(jobs, 50, start_seconds=5.0)
    assert schedule.makespan_seconds == schedule.critical_path_seconds == 1710.0
    assert schedule.critical_path_seconds == critical_path(jobs, 5.0)
    assert schedule.idle_share == pytest.approx(1 - (7400 + 8 * 5) / (50 * 1710))


def test_slots_that_wait_for_the_last_round_are_idle() -> None:
    schedule = simulate([Job((str(each),), (), 1000.0) for each in range(5)], 4, start_seconds=0.0)
    assert schedule.makespan_seconds == 2000.0
    assert schedule.idle_share == pytest.approx(3 / 8)


def test_short_tasks_pay_for_starting_once_a_pack() -> None:
    jobs = [Job((str(each),), (), 0.1) for each in range(1000)]
    schedule = simulate(jobs, 8, start_seconds=10.0)
    assert schedule.jobs == 10
    assert schedule.makespan_seconds == pytest.approx(40.0)


def test_nothing_to_do_takes_no_time() -> None:
    schedule = simulate([], 4)
    assert (schedule.makespan_seconds, schedule.critical_path_seconds, schedule.idle_share) == (0.0, 0.0, 0.0)


def test_a_cluster_is_never_faster_than_the_work_or_the_longest_chain() -> None:
    for slots in (1, 3, 16, 200):
        schedule = simulate(cells(40, 8, 60.0, 1.0), slots)
        assert schedule.makespan_seconds >= schedule.critical_path_seconds
        assert schedule.makespan_seconds >= schedule.work_seconds / slots
        assert 0 <= schedule.idle_share < 1


def test_a_machine_starts_each_slot_once_and_fills_it_with_what_is_ready() -> None:
    jobs = cells(2, 3, 10.0, 4.0)
    assert makespan(jobs, 1, start_seconds=5.0) == pytest.approx(5.0 + 6 * 10 + 2 * 4)
    assert makespan(jobs, 100, start_seconds=5.0) == pytest.approx(5.0 + 10 + 4)
    # Two slots: 0 1 | 2 3 | attack of the first cell and 4, then 5 beside the rest of 4.
    assert makespan(jobs, 2, start_seconds=0.0) == pytest.approx(38.0)
    assert makespan([], 2) == 0.0


def test_a_machine_is_never_faster_than_the_work_or_the_longest_chain() -> None:
    for slots in (1, 2, 7, 500):
        jobs = cells(20, 8, 3.0, 1.0)
        span = makespan(jobs, slots, start_seconds=0.0)
        assert span >= critical_path(jobs, 0.0)
        assert span >= 20 * (8 * 3.0 + 1.0) / slots
        assert span <= 20 * (8 * 3.0 + 1.0) / slots + critical_path(jobs, 0.0)
