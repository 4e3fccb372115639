"""The tuned recipes that come with privbench: each holds for its workload and methods as they are now."""

import pytest

import methods
import workloads
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.plan.tuned_recipe import SHIPPED, Head, Part, parse_tuned, read_recipe_file, shipped_files

FILES = {file.stem: file for file in shipped_files()}


def content(name: str) -> tuple[Head, Part]:
    return parse_tuned(read_recipe_file(FILES[name])).parts[name]


def test_there_are_some() -> None:
    assert FILES
    assert set(parse_tuned(read_recipe_file(SHIPPED)).parts) == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_method_had_the_budget_of_the_head(name: str) -> None:
    head, part = content(name)
    tried = {
        each.tried for values in part.method.values() for each in values.values() if each.source == "tuned"
    }
    assert tried == {head.trials * head.studies}
    assert {len(search["scores"]) for each in part.tuned.values() for search in each.searches} == {
        head.studies
    }


@pytest.mark.parametrize("name", FILES)
def test_a_run_takes_it_at_every_level(name: str) -> None:
    head, part = content(name)
    assert head.n_train == workloads.family.get(name).n_train
    grids = [
        {"workload": name, "method": method, **search["levels"]}
        for method, tuned in part.tuned.items()
        for search in tuned.searches
    ]
    for each in grids:
        fields = methods.family.get(each["method"]).Params.model_fields
        assert each.keys() - {"workload", "method"} <= fields.keys()
    plan = make_plan(*read_sweep({"recipe": SHIPPED, "models": 1, "grid": grids}, "test"), None)
    assert len(plan.cells) == len(grids)
    notes = [task.notes for task in plan.tasks if task.kind == "train"]
    assert {each.tuned_by for each in notes} == {f"tune:{head.name}"}
    assert {(each.trials, each.studies) for each in notes} == {(head.trials, head.studies)}


def test_only_the_word_names_them_not_a_folder_beside_a_sweep() -> None:
    parsed, problems = read_sweep({"recipe": SHIPPED, "grid": [{"workload": "w", "method": "m"}]}, "test")
    assert problems == []
    assert parsed.recipe is not None and parsed.recipe.name == SHIPPED
