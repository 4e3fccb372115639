"""Shortened names: they fit, and distinct names stay distinct."""

import random

import pytest
from rich.cells import cell_len

from harness.cli.terminal.shortening import shorten, shorten_distinctly


def test_the_middle_of_a_long_name_is_left_out() -> None:
    assert shorten("purchase100-shokri-synthetic", 18) == "purchase…synthetic"
    assert shorten("digits-mlp", 18) == "digits-mlp"


@pytest.mark.parametrize(
    "names",
    [
        ["dp-sgd ε=1 clip=0.5 steps=300", "dp-sgd ε=1 clip=1.5 steps=300", "dp-sgd ε=1 clip=1 steps=300"],
        ["x" * 30 + each + "y" * 30 for each in ("1", "2", "3")],
        ["a" * 40, "a" * 41, "a" * 42],
        ["学習データ" * 8, "学習データ" * 8 + "二"],
    ],
)
@pytest.mark.parametrize("width", [4, 8, 12, 20])
def test_distinct_names_stay_distinct(names: list[str], width: int) -> None:
    found = shorten_distinctly(names, width)
    assert len(set(found.values())) == len(names)
    assert all(cell_len(short) <= width for short in found.values()), found


def test_distinct_names_stay_distinct_among_many_random_ones() -> None:
    draw = random.Random(1)
    for width in (4, 6, 9, 15):
        names = ["".join(draw.choices("ab-", k=draw.randrange(1, 40))) for _ in range(60)]
        found = shorten_distinctly(names, width)
        assert len(set(found.values())) == len(set(names))
        assert all(cell_len(short) <= width for short in found.values())
        assert all(found[name] == name for name in names if len(name) <= width), "short ones are left alone"
