"""Ingredients of inputs: hostile names, values of every kind, and valid files with changes."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

WORDS = (
    "",
    " ",
    ".",
    "..",
    "../../bystander",
    "../bystander",
    "/etc/passwd",
    "/tmp/privbench-fuzz",
    "a/b",
    "con\x00trol",
    "\x1b[31mred\x1b[0m",
    "line\nbreak",
    "\u202egnp.exe",
    "\uff41\uff42\uff43",
    "ε=∞",
    "\ud800",
    "🦆" * 60,
    "n" * 300,
    "n" * 5_000,
    "-rf",
    "--help",
    "%s%n{0}{{x}}",
    "$(id)",
    "`id`",
    "'; drop table task; --",
    "<script>alert(1)</script>",
    "\\input{/etc/passwd}",
    "[bold]",
    "*",
    "~",
    "NUL",
    "sgd",
    "dp-sgd",
    "digits-mlp",
    "loss",
    "quickstart",
)
"""Names that have broken programs: traversal, control characters, right-to-left, very long, code."""

names: SearchStrategy[str] = st.sampled_from(WORDS) | st.text(max_size=40)
numbers: SearchStrategy[Any] = st.one_of(
    st.integers(-3, 12),
    st.sampled_from((2**31, 2**63 - 1, 2**63, 10**30, -(10**30), 0.5, 1e-300, 1e308, -0.0)),
    st.sampled_from((float("inf"), float("-inf"), float("nan"))),
    st.floats(),
)
scalars: SearchStrategy[Any] = st.none() | st.booleans() | numbers | names
values: SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=6,
)
"""Any value of JSON or TOML."""


@st.composite
def mangled(draw: DrawFn, good: bytes) -> bytes:
    """A valid file with up to four changes: bits, cuts, repetitions, foreign bytes."""
    content = good
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        to = min(len(content), at + draw(st.integers(0, 64)))
        match draw(st.sampled_from(("cut", "drop", "repeat", "replace", "insert"))):
            case "cut":
                content = content[:at]
            case "drop":
                content = content[:at] + content[to:]
            case "repeat":
                content = content[:to] + content[at:]
            case "replace":
                content = content[:at] + draw(st.binary(min_size=1, max_size=1)) + content[at + 1 :]
            case "insert":
                content = content[:at] + draw(st.binary(max_size=12)) + content[at:]
    return content


def files(*good: bytes) -> SearchStrategy[bytes]:
    """Mangled forms of valid files, the valid files themselves, and noise."""
    forms = [mangled(each) for each in good]
    return st.one_of(*forms, *forms, st.sampled_from(good), st.binary(max_size=200))


@st.composite
def altered(draw: DrawFn, good: Any) -> Any:
    """A valid JSON value with up to three of its parts replaced, removed or added."""
    changed = json.loads(json.dumps(good))
    for _ in range(draw(st.integers(1, 3))):
        place, key = _place(draw, changed)
        if place is None:
            return draw(values)
        act = draw(st.sampled_from(("replace", "replace", "remove", "add")))
        if act == "remove":
            del place[key]
        elif act == "replace":
            place[key] = draw(values)
        elif isinstance(place, dict):
            place[draw(names)] = draw(values)
        else:
            place.append(draw(values))
    return changed


def _place(draw: DrawFn, value: Any) -> tuple[Any, Any]:
    """A random container inside a value and one of its keys; (None, None) if it is empty."""
    found: tuple[Any, Any] = (None, None)
    while isinstance(value, dict | list) and value:
        key = draw(st.sampled_from(sorted(value))) if isinstance(value, dict) else None
        if key is None:
            key = draw(st.integers(0, len(value) - 1))
        found = (value, key)
        value = value[key]
        if not draw(st.booleans()):
            break
    return found


def nested(opening: str, closing: str, depth: int = 3_000) -> str:
    """Brackets nested deeper than a recursive parser can go."""
    return opening * depth + closing * depth
