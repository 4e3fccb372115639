"""The choice of a study: more models for the three best, and the best mean."""

from dataclasses import replace

from harness.tuning.choice import choose, find_best
from harness.tuning.scores import Scored
from tests.harness.tuning.conftest import Found


def study(found: Found, *scores: float) -> list[Scored]:
    made = found(lambda study, number: [scores[number]], studies=1, trials=len(scores))
    return list(made.studies[0].trials)


def numbers(chosen: list[Scored]) -> list[int]:
    return [each.trial.place.number for each in chosen]


def test_the_three_best_are_confirmed_and_the_first_of_equals(found: Found) -> None:
    assert numbers(find_best(study(found, 0.1, 0.7, 0.5, 0.7, 0.6), None)) == [1, 3, 4]


def test_a_cell_is_confirmed_once(found: Found) -> None:
    trials = study(found, 0.1, 0.7, 0.5, 0.6)
    twin = replace(trials[2], trial=replace(trials[2].trial, cell=trials[1].trial.cell), scores=[0.7])
    assert numbers(find_best([*trials[:2], twin, trials[3]], None)) == [1, 3, 0]


def test_a_lucky_winner_falls_with_more_models(found: Found) -> None:
    trials = study(found, 0.2, 0.8, 0.7, 0.6)
    again = {1: [0.8, 0.5, 0.5, 0.5], 2: [0.7, 0.69], 3: [0.6, 0.6]}
    confirmed = [
        replace(each, scores=again[number], confirmed=True) if number in again else each
        for number, each in enumerate(trials)
    ]
    chosen = choose(confirmed, None)
    assert chosen is not None and chosen.trial.place.number == 2


def test_a_diverged_trial_is_never_chosen(found: Found) -> None:
    trials = [replace(each, failed=1) for each in study(found, 0.0, 0.0)]
    assert choose(trials, None) is None
    assert find_best(trials, None) == []


def test_the_gap_is_a_limit(found: Found) -> None:
    trials = study(found, 0.9, 0.8)
    wide = replace(trials[0], gaps=[0.1])
    chosen = choose([wide, trials[1]], 0.05)
    assert chosen is not None and chosen.score == 0.8
    assert choose([wide], 0.05) is None
