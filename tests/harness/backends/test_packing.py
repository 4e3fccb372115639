import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends.base import Job
from harness.backends.packing import FULL_SECONDS, START_SECONDS, chunks, lengths, packs, stages


def jobs(*seconds: float | None) -> list[Job]:
    return [Job((str(number),), (), each) for number, each in enumerate(seconds)]


def sizes(found: list[list[Job]]) -> list[int]:
    return [len(pack) for pack in found]


def test_stages_follow_what_needs_what_and_keep_the_order() -> None:
    one, two, late = Job(("one",)), Job(("two",)), Job(("late",), ("mid", "gone"))
    mid = Job(("mid",), ("one", "two"))
    assert stages([late, one, mid, two]) == [[one, two], [mid], [late]]
    assert stages([Job(("attack",), ("done before",))]) == [[Job(("attack",), ("done before",))]]
    assert stages([]) == []


def test_a_given_size_is_kept_unless_the_cluster_allows_fewer_packs() -> None:
    assert sizes(packs(jobs(*[None] * 10), 4, width=100, most=None)) == [4, 4, 2]
    assert sizes(packs(jobs(*[None] * 10), 1, width=100, most=3)) == [4, 4, 2]


def test_tasks_of_seconds_share_a_job_and_tasks_of_hours_get_their_own() -> None:
    assert sizes(packs(jobs(*[0.1] * 1000), "auto", width=8, most=None)) == [100] * 10
    assert sizes(packs(jobs(*[3600.0] * 50), "auto", width=8, most=None)) == [1] * 50
    # Two packs for each slot, so that those done early find more.
    assert sizes(packs(jobs(*[30.0] * 64), "auto", width=8, most=None)) == [4] * 16


def test_of_unknown_times_every_slot_gets_two_packs() -> None:
    assert sizes(packs(jobs(*[None] * 160), "auto", width=8, most=None)) == [10] * 16
    assert sizes(packs(jobs(*[None] * 5), "auto", width=8, most=None)) == [1] * 5


def test_a_job_of_unknown_length_is_as_long_as_the_others() -> None:
    assert lengths(jobs(2.0, None, 8.0, 4.0)) == [2.0, 4.0, 8.0, 4.0]


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.none(), st.floats(0, 1e5)), max_size=80),
    st.one_of(st.just("auto"), st.integers(1, 10)),
    st.integers(1, 50),
    st.one_of(st.none(), st.integers(1, 20)),
)
def test_packs_hold_every_job_once_in_order_and_within_the_limits(
    seconds: list[float | None], size: "int | str", width: int, most: int | None
) -> None:
    given_jobs = jobs(*seconds)
    found = packs(given_jobs, size, width, most)  # type: ignore[arg-type]  # "auto" or a number
    assert [job for pack in found for job in pack] == given_jobs
    assert all(found)
    assert most is None or len(found) <= most
    if isinstance(size, int) and most is None:
        assert all(len(pack) <= size for pack in found)
    if size == "auto" and most is None and any(each is not None for each in seconds):
        taken = iter(
            lengths(given_jobs)
        )  # a job of unknown length is as long as the median of all, not of its pack
        totals = [math.fsum(next(taken) for _ in pack) for pack in found]
        assert max(totals) <= FULL_SECONDS + max(lengths(given_jobs)) + START_SECONDS


@pytest.mark.parametrize(
    ("count", "size", "expected"), [(0, 5, []), (5, 5, [5]), (6, 5, [3, 3]), (11, 4, [4, 3, 4])]
)
def test_chunks_are_within_the_limit_and_about_as_long(count: int, size: int, expected: list[int]) -> None:
    found = [range(count)[part] for part in chunks(count, size)]
    assert [len(part) for part in found] == expected
    assert [each for part in found for each in part] == list(range(count))
