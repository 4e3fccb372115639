"""Recipe files from made-up records, read back as a run reads them."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.plan.tuned_recipe import RecipeFile, TunedRecipes, parse_tuned
from harness.spec import Json
from harness.store.tunes import SearchRecord, StudyRecord, TrialRecord, TuneRecord, TuneWarning
from harness.tuning.recipe_writer import lacking, recipe_text
from harness.tuning.toml_text import inline, key
from workloads.errors import SpecError


def search(method: str, levels: Json, *rates: float | None, **more: Any) -> SearchRecord:
    """A search whose studies chose these learning rates; None for a study in which nothing was trained."""
    studies = []
    for number, rate in enumerate(rates):
        trial = TrialRecord(
            number=0, cell=None, params={"learning_rate": rate, "steps": 9}, scores=[rate or 0.0]
        )
        studies.append(
            StudyRecord(study=number, seed=number, trials=[trial], chosen=None if rate is None else 0)
        )
    head = {"workload": "digits-linear", "workload_version": "1", "method": method, "method_version": "2"}
    sizes = {"n_train": 718, "tuned_at": 700, "validation_records": 737, "majority": 0.1}
    return SearchRecord(**{**head, **sizes, "levels": levels, "axes": [], "studies": studies, **more})


def record(*searches: SearchRecord) -> TuneRecord:
    return TuneRecord(
        name="fair",
        made="now",
        trials=16,
        studies=len(searches[0].studies),
        models=1,
        confirm=3,
        seed=7,
        scipy="1",
        points=[],
        searches=list(searches),
    )


def read(made: TuneRecord) -> TunedRecipes:
    return parse_tuned(RecipeFile("fair.toml", recipe_text(made)))


def test_a_run_gets_the_median_study_and_any_other_by_number() -> None:
    made = record(
        search("dp-sgd", {"epsilon": 1}, 0.2, 0.9, 0.5), search("dp-sgd", {"epsilon": 8}, 0.4, 0.3, 0.8)
    )
    found = read(made).find("digits-linear", "dp-sgd")
    assert found is not None and found.head.tune == made.checksum and found.version == "2"
    rate = found.settings["learning_rate"]
    assert (rate.at(1.0), rate.at(8.0), rate.tried) == (0.5, 0.4, 48)
    assert [each["learning_rate"].at(8.0) for each in found.numbered.values()] == [0.4, 0.3, 0.8]
    with pytest.raises(SpecError) as caught:
        rate.at(2.0)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("epsilon", "2", ("1", "8"))


def test_a_method_without_levels_has_one_value() -> None:
    found = read(record(search("sgd", {}, 0.2, 0.9, 0.5))).find("digits-linear", "sgd")
    assert found is not None and found.settings["learning_rate"].value == 0.5


def test_other_levels_than_epsilon_are_written_as_tables() -> None:
    infinite = {"epsilon": {"$number": "inf"}}
    made = record(
        search("selena", {"K": 25, "L": 10}, 0.5),
        search("selena", {"K": 5, "L": 1}, 0.7),
        search("x", infinite, 0.1),
    )
    found = read(made).find("digits-linear", "selena")
    assert found is not None
    assert found.settings["learning_rate"].at(None, {"K": 5, "L": 1, "steps": 3}) == 0.7
    with pytest.raises(SpecError) as caught:
        found.settings["learning_rate"].at(None, {"K": 5, "L": 2})
    assert caught.value.field == "levels" and caught.value.allowed == ("K=25 L=10", "K=5 L=1")
    noiseless = read(made).find("digits-linear", "x")
    assert noiseless is not None
    assert noiseless.settings["learning_rate"].at(float("inf"), {"epsilon": float("inf")}) == 0.1


def test_given_parameters_are_in_the_recipe_and_not_tuned() -> None:
    found = read(record(search("sgd", {}, 0.5, given={"momentum": 0.5}))).find("digits-linear", "sgd")
    assert found is not None
    momentum = found.settings["momentum"]
    assert (momentum.value, momentum.source, momentum.tried) == (0.5, "ours", None)


def test_a_file_of_several_workloads() -> None:
    made = record(search("sgd", {}, 0.5), search("sgd", {}, 0.7, workload="digits-mlp"))
    rates = [
        found.settings["learning_rate"].value
        for name in ("digits-linear", "digits-mlp")
        if (found := read(made).find(name, "sgd")) is not None
    ]
    assert rates == [0.5, 0.7]


def test_a_method_without_a_choice_is_left_out() -> None:
    made = record(search("sgd", {}, None, None), search("dpis", {"epsilon": 1}, 0.5, 0.5))
    assert lacking(made) == ["sgd"]
    assert read(made).find("digits-linear", "sgd") is None
    assert read(made).find("digits-linear", "dpis") is not None


def test_warnings_are_in_the_file() -> None:
    told = TuneWarning(name="edge", text='widen it: [tune.search.sgd] "clip"')
    content = tomllib.loads(recipe_text(record(search("sgd", {}, 0.5, warnings=[told]))))
    assert content["tuned"]["sgd"]["warnings"] == [f"all levels: {told.text}"]
    assert content["tuning"]["tuned_at"] == 700


@pytest.mark.parametrize(
    "value", [True, 3, 0.1, 1e-30, float("inf"), 'a "b"\n', [1, [2.5]], {"a b": {"1": "ü"}, "c": {}}]
)
def test_toml_is_read_as_written(value: Any, tmp_path: Path) -> None:
    assert tomllib.loads(f"{key('x.y')} = {inline(value)}")["x.y"] == value
