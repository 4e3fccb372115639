"""Sweep files: product, zip, exclude, and all problems reported at once."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plan.sweep_file import Grid, find_sweep, from_options, read_sweep, ready_made
from workloads.errors import SpecError, UnknownName

GRID = {"workload": "digits-mlp", "method": "dp-sgd", "epsilon": 1}


def points(grid: dict[str, Any]) -> list[dict[str, Any]]:
    sweep, problems = read_sweep({"grid": [grid]}, "test")
    assert problems == []
    return list(sweep.grids[0].points())


def mistakes(data: dict[str, Any]) -> str:
    return "\n".join(read_sweep(data, "test")[1])


def test_lists_multiply() -> None:
    found = points({**GRID, "epsilon": [1, 4], "clip": [0.5, 1.0, 2.0]})
    assert [(point["epsilon"], point["clip"]) for point in found] == list(
        itertools.product([1, 4], [0.5, 1.0, 2.0])
    )
    assert {point["workload"] for point in found} == {"digits-mlp"}


def test_zipped_lists_go_in_step() -> None:
    found = points({**GRID, "epsilon": [1, 4], "zip": {"clip": [1, 2, 3], "steps": [10, 20, 30]}})
    assert len(found) == 6
    assert {(point["clip"], point["steps"]) for point in found} == {(1, 10), (2, 20), (3, 30)}


def test_excluded_points_are_left_out() -> None:
    grid = {
        **GRID,
        "epsilon": [1, 4, 8],
        "clip": [1, 2],
        "exclude": [{"epsilon": 4, "clip": 2}, {"epsilon": [8]}],
    }
    assert [(point["epsilon"], point["clip"]) for point in points(grid)] == [(1, 1), (1, 2), (4, 1)]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=4),
    st.integers(1, 3),
    st.lists(st.dictionaries(st.sampled_from("abcdxy"), st.integers(0, 3), min_size=1), max_size=3),
)
def test_points_equal_an_obvious_loop(
    lists: dict[str, list[int]], length: int, rules: list[dict[str, int]]
) -> None:
    zipped = {"x": list(range(length)), "y": list(range(length, 2 * length))}
    rules = [rule for rule in rules if rule.keys() <= lists.keys() | zipped.keys()]
    found = list(Grid("grid 1", lists, zipped, tuple(rules)).points())
    expected = []
    for combination in itertools.product(*lists.values()):
        for i in range(length):
            point = dict(zip(lists, combination, strict=True)) | {"x": zipped["x"][i], "y": zipped["y"][i]}
            if not any(all(point[key] == rule[key] for key in rule) for rule in rules):
                expected.append(point)
    assert found == expected


def test_all_problems_are_reported_at_once() -> None:
    reported = mistakes(
        {
            "modles": 8,
            "models": 0,
            "seed": -1,
            "name": "../escape",
            "attacks": ["lira", 3],
            "grid": [
                {"workload": "w"},
                {**GRID, "zip": {"clip": [1], "steps": [1, 2]}},
                {**GRID, "epsilon": []},
            ],
        }
    )
    for part in (
        "unknown key of a sweep 'modles', did you mean 'models'?",
        "models = 0",
        "seed = -1",
        "name = '../escape'",
        "attacks: 3",
        "grid 1: method is missing",
        "grid 2: zip: lists must have the same length, but clip has 1, steps has 2",
        "grid 3: epsilon = []",
    ):
        assert part in reported


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({}, "no grid"),
        ({"grid": []}, "no grid"),
        ({"grid": "x"}, "no grid"),
        ({"grid": [{**GRID, "exclude": [{"epsilon": 1}]}]}, "exclude leaves no point"),
        ({"grid": [{**GRID, "exclude": [{"epsilonn": 1}]}]}, "did you mean 'epsilon'?"),
        ({"grid": [{**GRID, "exclude": 3}]}, "exclude: give a list of tables"),
        ({"grid": [{**GRID, "zip": 3}]}, "zip: give a table of lists"),
        ({"grid": [{**GRID, "zip": {"epsilon": [1]}}]}, "epsilon is in the grid and in zip"),
        ({"grid": [GRID], "models": True}, "models = True"),
        ({"grid": [GRID], "models": 2.5}, "models = 2.5"),
        ({"grid": [GRID], "attacks": "lira"}, "attacks: give a list"),
        ({"grid": [GRID], "name": "a/b"}, "name = 'a/b'"),
        ({"grid": [GRID], "name": "x" * 200}, "name = "),
    ],
)
def test_mistakes(data: dict[str, Any], part: str) -> None:
    assert part in mistakes(data)


def test_an_attack_may_carry_parameters() -> None:
    sweep, problems = read_sweep({"grid": [GRID], "attacks": [{"attack": "lira", "mode": "offline"}]}, "test")
    assert problems == []
    assert sweep.attacks[0].name == "lira"
    assert sweep.attacks[0].params == {"mode": "offline"}


def test_broken_toml_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text('name = "x"\nmodels = = 3\n')
    with pytest.raises(SpecError, match=r"broken\.toml is not TOML: .*line 2"):
        find_sweep(str(file))


def test_a_missing_file_and_an_unknown_name() -> None:
    with pytest.raises(SpecError, match=r"no sweep file nowhere\.toml"):
        find_sweep("nowhere.toml")
    with pytest.raises(UnknownName, match="did you mean 'quickstart'"):
        find_sweep("quickstrat")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"binary\.toml is not TOML"):
        find_sweep(str(file))


@pytest.mark.parametrize("name", sorted(ready_made()))
def test_ready_made_sweeps_are_well_formed(name: str) -> None:
    sweep, problems = read_sweep(*find_sweep(name))
    assert problems == []
    assert sweep.name == Path(name).name


def test_options_are_equivalent_to_a_file() -> None:
    data = from_options("digits-mlp", "dp-sgd", "1,4", 4, "lira,loss", ["clip=0.5,1", "optimizer=adam"])
    sweep, problems = read_sweep(data, "x")
    assert problems == []
    assert sweep.models == 4
    assert [choice.name for choice in sweep.attacks] == ["lira", "loss"]
    found = list(sweep.grids[0].points())
    assert [(point["epsilon"], point["clip"]) for point in found] == [(1, 0.5), (1, 1), (4, 0.5), (4, 1)]
    assert {point["optimizer"] for point in found} == {"adam"}
    again = from_options("digits-mlp", "dp-sgd", "1,4", 4, "lira,loss", ["clip=0.5,1", "optimizer=adam"])
    assert again["name"] == data["name"]


@pytest.mark.parametrize(
    "options",
    [
        (None, "sgd", None, None, None, None),
        ("w", None, None, None, None, None),
        ("w", "m", None, None, None, ["x"]),
    ],
)
def test_too_few_options_are_refused(options: tuple[Any, ...]) -> None:
    with pytest.raises(SpecError):
        from_options(*options)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"models": 10**12}, "models = 1000000000000: give an integer from 1 to 100000"),
        ({"seed": 2**63}, "seed = 9223372036854775808: give an integer from 0 to"),
    ],
)
def test_numbers_too_large_to_run_are_refused(change: dict[str, Any], reported: str) -> None:
    _, problems = read_sweep({"grid": [{"workload": "w", "method": "m"}], **change}, "large")
    assert any(reported in problem for problem in problems)


def test_a_grid_of_too_many_points_is_refused_before_it_is_counted_out() -> None:
    lists = {f"p{number}": list(range(50)) for number in range(12)}
    _, problems = read_sweep({"grid": [{"workload": "w", "method": "m", **lists}]}, "large")
    assert problems == [
        "grid 1 has 244,140,625,000,000,000,000 points, at most 100,000 are allowed: split the sweep"
    ]


@pytest.mark.parametrize("source", ["n" * 5_000, "nul\0", "../../bystander", "/etc/passwd/x"])
def test_a_name_that_no_file_can_have_is_reported(source: str) -> None:
    with pytest.raises(SpecError, match="sweep"):
        find_sweep(source)
