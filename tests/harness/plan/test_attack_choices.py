"""Attacks as one text: the grammar of --attack."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plan.attack_choices import parse_attacks
from harness.plan.plan import make_plan
from harness.plan.sweep_file import from_options, read_sweep
from workloads.errors import SpecError

NAMES = st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True)
PARAMETERS = st.dictionaries(
    st.from_regex(r"[a-z][a-z_]{0,6}", fullmatch=True).filter(lambda name: name != "attack"),
    st.integers(-5, 5)
    | st.booleans()
    | st.sampled_from([0.5, 1e-3])
    | st.lists(st.integers(0, 3), min_size=1),
    max_size=3,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lira", ["lira"]),
        ("lira,loss", ["lira", "loss"]),
        ("rmia:gamma=2", [{"attack": "rmia", "gamma": 2}]),
        ("rmia:gamma=2:temperature=1.5,lira", [{"attack": "rmia", "gamma": 2, "temperature": 1.5}, "lira"]),
        ("rmia:gamma=2,temperature=1.5,lira", [{"attack": "rmia", "gamma": 2, "temperature": 1.5}, "lira"]),
        ("lira:mode=offline,lira", [{"attack": "lira", "mode": "offline"}, "lira"]),
        ("lira:shadows=sgd", [{"attack": "lira", "shadows": "sgd"}]),
        ("a:b=[1, 2],c:d='x,y:z'", [{"attack": "a", "b": [1, 2]}, {"attack": "c", "d": "x,y:z"}]),
        ("loss, lira : mode = online", ["loss", {"attack": "lira", "mode": "online"}]),
        ("lira,", ["lira", ""]),
    ],
)
def test_the_grammar(text: str, found: list[Any]) -> None:
    assert parse_attacks(text) == found


@given(st.lists(st.tuples(NAMES, PARAMETERS), min_size=1, max_size=4), st.sampled_from(":,"))
def test_what_is_written_is_read(attacks: list[tuple[str, dict[str, Any]]], between: str) -> None:
    """Whatever separates parameters, each belongs to its attack."""
    texts = []
    for name, params in attacks:
        pairs = [f"{key}={str(value).lower()}" for key, value in params.items()]
        texts.append(f"{name}:{between.join(pairs)}" if pairs else name)
    wanted = [{"attack": name, **params} if params else name for name, params in attacks]
    assert parse_attacks(",".join(texts)) == wanted


@pytest.mark.parametrize(
    "text",
    ["gamma=2", "rmia:gamma", "rmia:", "rmia:gamma=", "rmia:=2", "rmia:gamma=2:gamma=3", "rmia:attack=lira"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_attacks(text)
    assert (caught.value.field, caught.value.value) == ("--attack", text)


def test_attacks_of_the_command_line_are_planned_with_their_parameters() -> None:
    options = from_options("digits-linear", "sgd", None, 3, "rmia:gamma=2,rmia", ["steps=9"], seed=7)
    plan = make_plan(*read_sweep(options, "ad-hoc"), None)
    asked = [task.attack_params["gamma"] for task in plan.tasks if task.attack and task.attack.name == "rmia"]
    assert asked == [2, None]
    assert {task.cell.seed for task in plan.tasks} == {7}


def test_a_parameter_that_the_attack_lacks_is_refused() -> None:
    options = from_options("digits-linear", "sgd", None, 3, "rmia:gama=2", ["steps=9"])
    with pytest.raises(SpecError) as caught:
        make_plan(*read_sweep(options, "ad-hoc"), None)
    assert "'gamma'" in str(caught.value)


def test_a_seed_names_another_sweep() -> None:
    names = {from_options("w", "m", None, 3, None, None, None, seed)["name"] for seed in (None, 0, 1)}
    assert len(names) == 3
