"""Records of tunes: read, found by name, and what they say about themselves."""

import logging
from pathlib import Path

import pytest

from harness.store import Store
from harness.store.tunes import find_tune, parse_tune, read_tunes, tune_names, write_tune
from tests.harness.tuned import make_search, make_tune
from workloads.errors import UnknownName


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def test_a_record_comes_back_as_it_was_written(store: Store) -> None:
    record = make_tune(trials=4, studies=2)
    write_tune(store, record)
    assert read_tunes(store) == {"fair": record}
    assert parse_tune((store.path / "tunes" / "fair.json").read_bytes()) == record
    assert find_tune(store, "fair") == record


def test_a_name_that_is_unknown_is_refused_with_the_nearest(store: Store) -> None:
    write_tune(store, make_tune(trials=2, studies=1))
    with pytest.raises(UnknownName) as error:
        find_tune(store, "fiar")
    assert (error.value.nearest, error.value.allowed) == ("fair", ("fair",))


def test_the_tune_of_an_import_is_found_by_its_origin(store: Store) -> None:
    theirs = Store.open(store.path / "imports" / "lab", create=True)
    record = make_tune(trials=2, studies=1)
    write_tune(theirs, record)
    assert tune_names(store) == ["lab:fair"]
    assert find_tune(store, "lab:fair") == record


@pytest.mark.parametrize("harm", ["half", "another name", "no json"])
def test_a_damaged_record_is_left_out_and_told(
    store: Store, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_tune(store, make_tune(trials=2, studies=1))
    file = store.path / "tunes" / "fair.json"
    if harm == "half":
        file.write_bytes(file.read_bytes()[:200])
    elif harm == "no json":
        file.write_bytes(b"\0")
    else:
        file.rename(file.with_name("other.json"))
    broken: list[Path] = []
    with caplog.at_level(logging.WARNING):
        assert read_tunes(store, broken) == {}
    assert len(broken) == 1 and "damaged" in caplog.text


def test_a_search_names_itself_by_its_levels() -> None:
    every = [[[0.5] * 8]]
    assert make_search("w", "dp-sgd", 1.0, every, 0).label == "dp-sgd ε=1"
    assert make_search("w", "sgd", None, every, 0).label == "sgd"
    endless = make_search("w", "dp-sgd", 1.0, every, 0).model_copy(
        update={"levels": {"epsilon": {"$number": "inf"}, "alpha": 0.25}}
    )
    assert endless.level == "ε=inf, alpha=0.25"


def test_what_is_taken_is_the_choice_of_the_median_study() -> None:
    (search, *_) = make_tune(trials=8, studies=3).searches
    scores = sorted(each.score for each in search.studies)
    assert search.chosen is not None and search.choice is not None
    assert search.choice.score == scores[1]
    assert search.chosen_values == search.choice.params
    assert [each.number for each in search.studies] == [1, 2, 3]
