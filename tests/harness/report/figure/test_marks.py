"""Marks of methods: the same whatever else is drawn, distinct for the methods of this package."""

from collections import Counter
from itertools import combinations

import pytest

import methods
from harness.report.figure.marks import BASELINE, MARKERS, PALETTE, SLOTS, assign_marks, find_slot

OWN = sorted(methods.family.own)
PLAIN = [name for name in OWN if getattr(methods.family.get(name), "role", None) == "plain-baseline"]
OTHERS = [name for name in OWN if name not in PLAIN]


@pytest.mark.parametrize("name", OTHERS)
def test_a_method_keeps_its_mark_whatever_else_is_drawn(name: str) -> None:
    alone = assign_marks([name])[name]
    assert alone == assign_marks(OWN, PLAIN)[name] == assign_marks(reversed(OWN), PLAIN)[name]
    for other in OTHERS:
        assert assign_marks([other, name, *PLAIN], PLAIN)[name] == alone


def test_methods_of_this_package_are_distinct() -> None:
    marks = assign_marks(OWN, PLAIN)
    assert len(set(marks.values())) == len(OWN) == len({find_slot(name) for name in OTHERS}) + 1
    colours = Counter(mark.colour for mark in marks.values())
    assert max(colours.values()) <= 2
    assert colours[BASELINE.colour] == len(PLAIN) == 1


def test_marks_do_not_change_between_releases() -> None:
    """Figures of one paper may be made by several versions."""
    marks = assign_marks(["dp-sgd", "pate", "my-method"])
    assert [(mark.colour, mark.marker) for mark in marks.values()] == [
        *[("#0072B2", "o"), marks_of("my-method"), ("#CC79A7", "v")],
    ]


def marks_of(name: str) -> tuple[str, str]:
    slot = find_slot(name)
    return PALETTE[slot % len(PALETTE)], list(MARKERS)[slot // len(PALETTE)]


def test_plug_ins_with_the_same_slot_are_drawn_differently() -> None:
    names = [f"method-{number}" for number in range(200)]
    one, other = next(pair for pair in combinations(names, 2) if find_slot(pair[0]) == find_slot(pair[1]))
    marks = assign_marks([other, one])
    assert marks[one] != marks[other]
    assert marks[min(one, other)] == assign_marks([min(one, other)])[min(one, other)]


def test_more_methods_than_marks_do_no_harm() -> None:
    found = assign_marks(f"m{number}" for number in range(SLOTS + 5))
    assert len(found) == SLOTS + 5
    assert len(set(found.values())) == SLOTS


def test_every_marker_has_a_symbol_of_the_page() -> None:
    assert len(set(MARKERS.values())) == len(MARKERS)
    assert BASELINE.symbol == "triangle-up"
