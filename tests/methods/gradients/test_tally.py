"""Counts of a run: the same however often they are read, saved and restored."""

import torch

from methods.gradients import Clipped
from methods.gradients.tally import LOOK_EVERY, Tally


def step(beyond: list[bool], nonfinite: int = 0) -> Clipped:
    values = torch.zeros(len(beyond))
    return Clipped([], values, values, torch.tensor(beyond, dtype=torch.bool), nonfinite)


STEPS = [step([True, False, False]), step([]), step([True, True], nonfinite=1)] * LOOK_EVERY


def test_every_step_counts_once() -> None:
    tally = Tally()
    for each in STEPS:
        tally.add(each)
    stats = tally.stats(len(STEPS))
    assert stats == tally.stats(len(STEPS))
    assert stats == {
        "clipped_share": 3 / 5,
        "mean_batch": 5 / 3,
        "empty_batches": float(LOOK_EVERY),
        "nonfinite_gradients": float(LOOK_EVERY),
    }


def test_saved_counts_go_on() -> None:
    first, second = Tally(), Tally()
    for each in STEPS[:50]:
        first.add(each)
    second.add(step([True] * 9))  # of steps that are done again
    second.load_state_dict(first.state_dict())
    for each in STEPS[50:]:
        first.add(each)
        second.add(each)
    assert second.stats(len(STEPS)) == first.stats(len(STEPS))


def test_a_run_of_empty_batches_has_shares() -> None:
    tally = Tally()
    tally.add(step([]))
    assert tally.stats(1) == {
        "clipped_share": 0.0,
        "mean_batch": 0.0,
        "empty_batches": 1.0,
        "nonfinite_gradients": 0.0,
    }
