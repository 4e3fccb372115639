"""The sweeps of published tables: every line gives a cell that is matched back to it, or has a reason."""

from typing import Any

import pytest

from harness.papers.published_lines import find_obstacle, lines_of, members_of
from harness.papers.published_tables import Published, papers, published
from harness.plan.plan import resolve
from harness.plan.published_sweep import Derived, PublishedSweep, derive
from harness.plan.sweep_file import Sweep, read_sweep
from harness.results.matching import differences, match
from harness.spec import Cell, Json
from workloads.errors import SpecError

TABLES = [table.name for paper in papers() for table in paper.table]
ABLE = [name for name in TABLES if any(find_obstacle(line) is None for line in lines_of(name))]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is solved for once serves all tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def sweep_of(table: str, lines: str | None = None, small: bool = False, **more: Any) -> Sweep:
    sweep, problems = read_sweep(derived(table, lines, small, **more).content, table)
    assert problems == []
    return sweep


def derived(table: str, lines: str | None = None, small: bool = False, **more: Any) -> Derived:
    return derive(PublishedSweep(table, lines, small), **more)


def collected(cell: Cell) -> Json:
    """A cell as `collect` reads it from the database."""
    versions = {"workload_version": cell.workload.version, "method_version": cell.method.version}
    names = {"key": cell.key, "workload": cell.workload.name, "method": cell.method.name}
    return {**names, **versions, "params": cell.params, "n_train": cell.n_train, "seed": 0, "models": 1}


def line(table: str, number: int) -> Published:
    return lines_of(table)[number]


@pytest.mark.slow
@pytest.mark.parametrize("table", ABLE)
def test_every_line_gives_a_cell_that_is_this_line_or_has_a_reason(table: str) -> None:
    cells = {cell.key: collected(cell) for cell in resolve(sweep_of(table)).cells}
    answered = set()
    for each in lines_of(table):
        if find_obstacle(each) is not None:
            assert match([each], cells.values()) == []
            continue
        (own,) = resolve(sweep_of(table, str(each.number))).cells
        assert own.key in cells
        first = next(row for row in match([each], cells.values()) if row["place"] == 1)
        assert first["cell"] == own.key, each.key
        assert not [text for text in differences(each, cells[own.key]) if "instead of" in text], each.key
        answered.add(own.key)
    assert answered == cells.keys()


def test_every_line_is_of_a_table_that_can_be_run_or_has_a_reason() -> None:
    obstacles = {each.key: find_obstacle(each) for each in published()}
    assert {each.key for each in published() if each.table.name not in ABLE} <= {
        key for key, why in obstacles.items() if why is not None
    }
    able = [key for key, why in obstacles.items() if why is None]
    assert len(able) == 452
    assert all(members_of(each) is not None for each in published() if each.key in able)


def test_a_line_decides_members_settings_models_and_attacks() -> None:
    (point,) = derived("dpsur-table-2", "4").content["grid"]
    assert point == {
        "workload": "mnist-scatter-cnn",
        "method": "dpis",
        "n_train": 60000,
        "epsilon": 1,
        "delta": 1e-05,
    }
    assert derived("dpsur-table-2").content["models"] == 5, "as many as the paper has runs"
    assert derived("dirdp-sgd-table-4", "0").content["models"] == 3, "the paper states no runs"
    attacked = derived("pd-sgd-table-2", "0").content
    assert attacked["models"] == 9, "a target and the paper's eight shadows"
    assert [each["attack"] for each in attacked["attacks"]] == ["population", "reference", "shadow", "lira"]
    assert derived("pd-sgd-table-8", "0").content["attacks"] == [
        {"attack": "population"},
        {"attack": "reference"},
        {"attack": "shadow"},
    ]
    assert derived("dirdp-sgd-table-6", "0").content["attacks"] == [
        {"attack": "inverting-gradients", "images": 100}
    ]
    assert derived("dirdp-sgd-text-5.2.2", "0").content["attacks"] == [
        {"attack": "reference", "shadows": "sgd"}
    ]


def test_a_line_of_stated_noise_is_run_and_found_by_it() -> None:
    """Its printed epsilon is a result, whatever our accountant makes of it."""
    asked = line("opacus-mnist-example", 1)
    (cell,) = resolve(sweep_of("opacus-mnist-example", "1")).cells
    assert (asked.epsilon, cell.params["noise_multiplier"]) == (1.16, 1.3)
    assert cell.params.get("epsilon") is None
    (row,) = match(lines_of("opacus-mnist-example"), [collected(cell)])
    assert (row["published"], row["cell"], row["differences"]) == (asked.key, cell.key, "[]")


def test_epochs_of_the_paper_become_steps() -> None:
    (cell,) = resolve(sweep_of("dpsur-table-2", "92")).cells
    assert (cell.n_train, cell.params["steps"], cell.params["batch_size"]) == (60000, 2344, 512)


def test_what_the_paper_leaves_open_is_said_and_can_be_set() -> None:
    told = derived("pd-sgd-table-9").remarks
    assert any("our choice: batch_size = 3072" in each for each in told)
    assert any(each.startswith("not stated by the paper, from the recipe: steps,") for each in told)
    (point, *_) = derived("dirdp-sgd-table-4", "6", settings=["learning_rate=1,2"]).content["grid"]
    assert point["learning_rate"] == [1, 2]
    with pytest.raises(SpecError) as stated:
        derived("dirdp-sgd-table-4", "6", settings=["epsilon=1"])
    assert (stated.value.field, stated.value.value) == ("--set", "epsilon")
    with pytest.raises(SpecError, match="did you mean 'learning_rate'"):
        derived("dirdp-sgd-table-4", "6", settings=["learning_rat=1"])


def test_lines_that_cannot_be_run_are_left_out_and_named_ones_refused() -> None:
    found = derived("pd-sgd-table-13")
    assert len(found.content["grid"]) == 9
    assert found.remarks[0] == "without line 2: what the paper used for sigma and gamma is not known"
    with pytest.raises(SpecError) as named:
        derived("pd-sgd-table-13", "1-2")
    assert named.value.problems == [
        "pd-sgd-table-13/002 cannot be run: what the paper used for sigma and gamma is not known"
    ]
    with pytest.raises(SpecError) as none:
        derived("lecture-shokri")
    assert (len(none.value.problems), none.value.value) == (9, "lecture-shokri")


def test_another_choice_is_another_sweep() -> None:
    names = [
        derived(*asked).content["name"]
        for asked in (
            ("dpsur-table-2",),
            ("dpsur-table-2", "0"),
            ("dpsur-table-2", "0-3, dpsur-table-2/007"),
            ("dpsur-table-2", ",".join(map(str, range(90)))),
            ("dpsur-table-2", None, True),
        )
    ]
    names.append(derived("dpsur-table-2", settings=["steps=5"]).content["name"])
    assert len(set(names)) == len(names)
    assert names[:3] == ["dpsur-table-2", "dpsur-table-2-lines-0", "dpsur-table-2-lines-0-3.007"]
    assert names[4] == "dpsur-table-2-small"


@pytest.mark.slow
@pytest.mark.parametrize("table", ABLE)
def test_a_small_sweep_is_short_and_answers_no_line(table: str) -> None:
    sweep, whole = sweep_of(table, small=True), sweep_of(table)
    cells = resolve(sweep).cells
    assert sweep.models <= whole.models
    assert {choice.name for choice in sweep.attacks} == {choice.name for choice in whole.attacks}
    assert all(cell.params["steps"] <= 100 for cell in cells)
    assert match(published(), map(collected, cells)) == []
