from harness.report.style import (
    BASELINE_COLOUR,
    KINDS,
    PALETTE,
    UNKNOWN_KIND,
    assign_colours,
    darken,
    format_epsilon,
    shorten,
)


def test_a_method_keeps_its_colour_whatever_the_order() -> None:
    assert assign_colours(["dp-sgd", "sgd", "pd-sgd"]) == assign_colours(["pd-sgd", "dp-sgd", "pd-sgd"])
    assert assign_colours(["sgd"]) == {"sgd": BASELINE_COLOUR}


def test_twenty_methods_have_twenty_colours() -> None:
    colours = assign_colours([f"m{i:02}" for i in range(20)])
    assert len(set(colours.values())) == 21
    assert tuple(colours[f"m{i:02}"] for i in range(7)) == PALETTE


def test_every_kind_of_guarantee_has_its_own_marker() -> None:
    signs = [*KINDS.values(), UNKNOWN_KIND]
    for column in zip(*signs, strict=True):
        assert len(set(column)) == len(signs)


def test_darken_keeps_the_hue() -> None:
    assert darken("#80FF00", 0.5) == "#408000"


def test_short_texts_for_figures() -> None:
    assert format_epsilon(0.9994) == "ε=1"
    assert format_epsilon(3.992) == "ε=4"
    assert format_epsilon(0.0123) == "ε=0.012"
    assert format_epsilon(float("inf")) == "ε=∞"
    assert shorten("a\nb\x00") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert shorten("x" * 40, 10) == "x" * 9 + "…"
    assert shorten("exactly 10", 10) == "exactly 10"
