"""Trials as points on the searched axes."""

import pytest

from harness.report.tuning.trial_points import blocks_of, limits_of, luck_of, place_on, points_of
from tests.harness.tuned import BETA, CLIP, EVERY, make_tune, on_axis


@pytest.mark.parametrize("coordinate", [0.0, 0.31, 0.999])
def test_a_point_lies_where_the_search_drew_it(coordinate: float) -> None:
    assert place_on(CLIP, coordinate) == pytest.approx(on_axis(CLIP, coordinate))
    assert place_on(BETA, coordinate) == pytest.approx(on_axis(BETA, coordinate))
    assert EVERY.choices[int(place_on(EVERY, coordinate))] == on_axis(EVERY, coordinate)


def test_every_trained_trial_is_a_point_and_what_matters_is_drawn_last() -> None:
    record = make_tune(methods=("dp-sgd",), trials=8, studies=3)
    search = record.searches[0]
    points = list(points_of(record, search))
    assert len(points) == 24
    assert [each.standing for each in points[-3:]] == ["chosen", "chosen", "taken"]
    assert sum(each.standing == "confirmed" for each in points) == 6
    for point in points:
        assert point.low <= point.score <= point.high
        assert point.places["clip"] == pytest.approx(point.trial.params["clip"], rel=0.01)


def test_a_trial_without_a_model_is_no_point() -> None:
    record = make_tune(methods=("dp-sgd",), trials=4, studies=1, confirm=0)
    search = record.searches[0]
    lost = search.studies[0].trials[0].model_copy(update={"scores": [], "cell": None, "error": "no"})
    study = search.studies[0].model_copy(update={"trials": [lost, *search.studies[0].trials[1:]]})
    assert len(list(points_of(record, search.model_copy(update={"studies": [study]})))) == 3


def test_a_tune_of_two_workloads_is_two_blocks() -> None:
    blocks = blocks_of({"lab:fair": make_tune(workloads=("a", "b"), trials=2, studies=1)})
    assert [(each.stem, len(each.searches), each.budget) for each in blocks] == [
        ("tune-lab-fair-a", 4, "2 x 1"),
        ("tune-lab-fair-b", 4, "2 x 1"),
    ]


def test_the_luck_is_the_range_of_the_studies_choices() -> None:
    search = make_tune(trials=8, studies=3).searches[0]
    scores = [each.score for each in search.studies]
    assert luck_of(search) == (min(scores), max(scores))
    assert luck_of(search.model_copy(update={"studies": []})) is None


def test_a_line_far_from_all_trials_does_not_dwarf_them() -> None:
    record = make_tune(methods=("dp-gan",), epsilons=(1.0,), trials=8, studies=2)
    search = record.searches[0]
    low, high = limits_of(list(points_of(record, search)), search)
    assert high < 0.3  # the recipe's line is at 72 %
    assert low < 0.102 < high
